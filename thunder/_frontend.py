"""What of tracing is Python: how a program is run to be traced, and which torch functions the tracer knows."""

import contextlib
import importlib
import sys
import threading

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import DeviceContext, _device_constructors

from . import (
    _C,
    _autocast,
    _collectives,
    _custom_function,
    _func,
    _functional_collectives,
    _generators,
    _hooks,
    _opaque,
    _outside,
    _recurrent,  # noqa: F401  - registers itself
    _refused,
    _replacements,
)
from ._handlers import handlers
from ._marks import refusal
from ._names import REFLECTED, in_place_names, is_in_place, resolve
from ._numbers import TracedFloat, TracedInt, TracedNumber
from ._python_bodies import body_of
from ._tracing import INTERNAL, TensorProxy, current_tracer, saved_tensors_hooks, state


def calls_as_it_is(func):
    """Whether calls of an unregistered torch function can be recorded, some of them at least."""
    if _C.is_registered(func):
        return False
    return body_of(func) is not None or _opaque.has_plain_overload(func)


class _TraceMode(TorchFunctionMode):
    """Sends every torch call of the running function to the tracer."""

    def __init__(self, tracer):
        super().__init__()
        self._tracer, self._handle = tracer, tracer.handle
        # torch.set_default_device and `with torch.device(...)` around the call are modes below this one, which never
        # reach them.
        below = [m.device for m in _get_current_function_mode_stack() if isinstance(m, DeviceContext)]
        self._device = below[-1] if below else None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if _C.holds_dtensor(args) or (kwargs and _C.holds_dtensor(kwargs)):
            return self._handle(func, args, kwargs)
        for other in types:
            if not issubclass(other, torch.Tensor):
                self._tracer.leave_to_eager(f"the function uses a {other.__name__}, which overrides torch functions")
        if not _C.is_registered(func) and (body := body_of(func)):
            with self:
                return body(*args, **(kwargs or {}))
        if not _C.is_registered(func) and _C.any_autocast():
            settled = _autocast.settle(func, args, kwargs or {})
            if settled is not None:
                if len(settled) == 1:
                    return settled[0]
                args, kwargs = settled
        if not _C.is_registered(func) and (record := _opaque.resolve(func, args, kwargs or {})) is not None:
            return record()
        if self._device is not None and func in _device_constructors() and (kwargs or {}).get("device") is None:
            kwargs = {**(kwargs or {}), "device": self._device}
        return self._handle(func, args, kwargs)


@contextlib.contextmanager
def _tracing(tracer):
    """Makes `tracer` current."""
    if not hasattr(state, "tracers"):
        state.tracers, state.modes, state.parts = [], [], []
    mode = _TraceMode(tracer)
    state.tracers.append(tracer)
    state.modes.append(mode)
    state.parts.append({"saved_tensors_hooks": saved_tensors_hooks()})
    try:
        with _torch_compiles(tracer), mode:
            if mode._device is None:
                tracer.take_calls()
            yield
    finally:
        state.tracers.pop()
        state.modes.pop()
        state.parts.pop()


_lock = threading.Lock()
_programs = 0  # that are being traced, by all threads
_before = None  # PyTorch's flag and Function.apply, as they were before the first of them


@contextlib.contextmanager
def _torch_compiles(tracer):
    """torch.compiler.is_compiling() returns tracer.seems_compiled in the program: libraries branch on that.

    The interpreter answers reads of PyTorch's flag, so that other threads read what it is outside.  The flag itself is
    set where Python runs the function.  `Function.apply` calls what it was before in threads that compile nothing.
    """
    global _programs, _before
    with _lock:
        if _programs == 0:
            _before = torch.compiler._is_compiling_flag, torch.autograd.Function.__dict__["apply"]
            torch.autograd.Function.apply = classmethod(_autograd_function_apply)
        _programs += 1
        if not tracer.interprets:
            torch.compiler._is_compiling_flag = tracer.seems_compiled
    try:
        yield
    finally:
        with _lock:
            _programs -= 1
            if _programs == 0:
                torch.compiler._is_compiling_flag, torch.autograd.Function.apply = _before


def call_outside(function, args, kwargs):
    """A call that is no part of the program that is being acquired: PyTorch is what it is outside."""
    flag, torch.compiler._is_compiling_flag = torch.compiler._is_compiling_flag, _before[0]
    try:
        with torch._C.DisableTorchFunction():
            return function(*args, **kwargs)
    finally:
        torch.compiler._is_compiling_flag = flag


def _run_traced(tracer, fn, args, kwargs):
    if "torch.distributed.tensor" in sys.modules and torch.distributed.is_initialized():
        importlib.import_module(".distributed._dtensor", __package__).set_up()
    for function, by in _replacements.pairs_of_loaded():
        _C.replace_function(function, by)
    modules = [fn] if isinstance(fn, torch.nn.Module) else []
    for module in modules:
        parts = not is_sharded(module)
        for tensor in (*module.buffers(), *module.parameters()):
            if not (parts and _C.holds_dtensor(tensor)):
                tracer.add_captured(tensor)
    before = [(m, dict(m._buffers)) for root in modules for m in root.modules()]
    with _tracing(tracer):
        result = tracer.run(fn, args, kwargs)
    if not tracer.interprets:
        _check_attributes(before)
    return result


def is_sharded(module):
    """Whether fully_shard was applied to the module, or a part of it."""
    fsdp = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    return fsdp is not None and any(isinstance(m, fsdp) for m in module.modules())


def _check_attributes(before):
    """Traced tensors must not stay in the modules: nothing would replay the assignment in later calls."""
    for module, buffers in before:
        for name, value in list(module._buffers.items()):
            if isinstance(value, TensorProxy):
                module._buffers[name] = buffers.get(name)
                raise refusal(
                    f"[jit] the compiled module replaced its buffer '{name}'; write into it in place instead "
                    f"(self.{name}.copy_(...))"
                )
        for name, value in list(vars(module).items()):
            if isinstance(value, TensorProxy):
                del vars(module)[name]
                raise refusal(
                    f"[jit] the compiled module keeps a tensor in its attribute '{name}'; register a buffer and write "
                    "into it in place, or return the tensor"
                )


def _autograd_function_apply(cls, *args, **kwargs):
    tracer = current_tracer()  # none in a thread that does not compile
    if tracer is None or not torch._C._is_torch_function_enabled():  # a call on tensors of no program
        return _before[1].__get__(None, cls)(*args, **kwargs)
    if kwargs:
        raise TypeError(f"{cls.__name__}.apply() takes no keyword arguments")
    return _custom_function.apply(tracer, cls, args)


# What asks for metadata that the proxies have.
PASS_THROUGH = """
    Tensor.dtype Tensor.device Tensor.ndim Tensor.is_cuda Tensor.is_cpu Tensor.is_meta Tensor.is_quantized
    Tensor.is_nested Tensor.is_mps Tensor.is_xpu Tensor.is_mkldnn Tensor.itemsize Tensor.names
    Tensor.output_nr Tensor.is_vulkan Tensor.is_ipu Tensor.is_maia Tensor.dim
    Tensor.ndimension Tensor.is_floating_point Tensor.is_complex Tensor.is_signed Tensor.is_neg
    Tensor.is_inference Tensor.element_size Tensor.get_device Tensor.has_names Tensor.__hash__ Tensor.dim_order
    device _C._set_grad_enabled _C._nn._parse_to is_tensor is_floating_point is_complex is_neg
    is_inference is_signed is_nonzero get_device result_type can_cast promote_types is_storage typename sym_int
    sym_float ops.profiler._record_function_enter_new ops.profiler._record_function_exit._RecordFunction
"""


def _register():
    for op in _C.ops():
        if op.level != "torch":
            continue
        results = getattr(torch.return_types, op.name.rpartition(".")[2], None)
        for path in op.python:
            name = path.rpartition(".")[2]
            target = resolve(path)
            if target is None:
                continue
            _C.register_function(target, "operator", op.name, in_place=is_in_place(name), reflected=name in REFLECTED,
                                 method=path.startswith("torch.Tensor."), result=results)
            for in_place in in_place_names(path):
                target = resolve(in_place)
                if target is not None:
                    _C.register_function(target, "operator", op.name, in_place=True)
    for path in PASS_THROUGH.split():
        if (target := resolve(f"torch.{path}")) is not None:
            _C.register_function(target, "pass through")
    for path, handler in handlers.items():
        if (target := resolve(f"torch.{path}")) is not None:
            _C.register_function(target, "handler", handler=_refused.guarded(handler))
    creating = _generators.handlers | _collectives.handlers | _functional_collectives.handlers | _hooks.of_modules
    for path, handler in creating.items():
        if (target := resolve(f"torch.{path}")) is not None:
            _C.register_function(target, "handler", handler=handler, creates=True)


def _set_up():
    constants = [
        (torch.contiguous_format, "torch.contiguous_format"),
        (torch.preserve_format, "torch.preserve_format"),
        (torch.channels_last, "torch.channels_last"),
        (torch.channels_last_3d, "torch.channels_last_3d"),
        (torch.strided, "torch.strided"),
        (torch.sparse_coo, "torch.sparse_coo"),
        (torch.sparse_csr, "torch.sparse_csr"),
        (torch.sparse_csc, "torch.sparse_csc"),
    ]
    dtypes = [getattr(torch, name) for name in _C.dtype_names()]
    numbers = (TracedInt, TracedFloat, TracedNumber)
    _C.set_hooks(torch.Tensor, TensorProxy, numbers, dtypes, constants, list(INTERNAL), _run_traced)
    _C.add_dtypes([(bool, "bool"), (int, "int64"), (float, "float64"), (complex, "complex128")])
    _C.set_outside_states(_outside)
    _C.set_autocast(_autocast.settle)
    _C.set_unrecorded(_refused.after)
    for function, by in (*_replacements.pairs(), *_func.pairs()):
        _C.replace_function(function, by)
    _register()


_set_up()
