"""The symbols that run operators of PyTorch without a record, and their gradients.

The gradient is that of PyTorch's autograd, for which the backward runs the operator again; a random one with the state
that its generator had.
"""

import contextlib
import functools
import inspect
import keyword

import torch

from ._opaque_meta import (
    at,
    call,
    describe,
    flatten,
    is_random,
    map_tensors,
    places,
    written_places,
)
from .core.proxies import TensorProxy
from .extend import OperatorExecutor, get_grad, put_grad, register_grad

_executor = OperatorExecutor("torch_ops")


def _signature(overload, *first):
    names = [f"_{a.name}" if keyword.iskeyword(a.name) else a.name for a in overload._schema.arguments]
    kind = inspect.Parameter
    positional = [kind(n, kind.POSITIONAL_OR_KEYWORD) for n in (*first, *names)]
    return inspect.Signature([*positional, kind("results", kind.KEYWORD_ONLY, default=None)])


def _several(tensors):
    return tuple(tensors) if len(tensors) != 1 else tensors[0]


def _evaluate(overload, values, which):
    """The results that `which` names (all if None), then the new contents of what the operator writes to."""
    written = written_places(overload, values)
    copies = {id(at(values, place)): at(values, place).clone() for place in written}
    values = map_tensors(values, lambda t: copies.get(id(t), t))
    _, flat = flatten(call(overload, values))
    chosen = flat if which is None else [flat[i] for i in which]
    return [*chosen, *(at(values, place) for place in written)]


@functools.cache
def symbol_of(overload):
    """The symbol of Thunder's that runs an operator, with its gradient."""
    name = str(overload).replace(".default", "").replace(".", "_")

    def meta(*values, results=None):
        return _several([m.proxy() for m in _description(overload, values).computed])

    meta.__signature__ = _signature(overload)
    tags = ("random",) if is_random(overload) else ()
    symbol = _executor.register_operator(
        name, meta=meta, tags=tags, fn=lambda *values, results=None: _several(_evaluate(overload, values, results))
    )
    forward = _with_state(overload, name) if is_random(overload) else None
    backward = _backward(overload, name)

    def rule(*values, results=None):
        made = (forward or symbol)(*values, results=results)
        outputs = made if isinstance(made, tuple) else (made,)
        state, outputs = (outputs[0], outputs[1:]) if forward else (None, outputs)
        computed = _description(overload, values).computed
        differentiable = [i for i, m in enumerate(computed) if m.requires_grad]
        paths = [list(place) for place, t in places(values) if t.requires_grad]
        if differentiable and paths:
            gradients = [get_grad(outputs[i]) for i in differentiable]
            flows = backward(gradients, state, differentiable, paths, *values, results=results)
            for path, g in zip(paths, flows if len(paths) > 1 else (flows,), strict=True):
                put_grad(at(values, path), g)
        return _several(outputs)

    rule.__signature__ = _signature(overload)
    register_grad(symbol, rule)
    return symbol


def _description(overload, values):
    return describe(overload, values, lambda t: t.requires_grad)


def _with_state(overload, name):
    """The operator, with the state that its generator had as the first result."""

    def meta(*values, results=None):
        with torch._C.DisableTorchFunction():  # the state is no tensor of the program
            size = len(_state(_device(values)))
        made = [m.proxy() for m in _description(overload, values).computed]
        return (TensorProxy(shape=(size,), dtype=torch.uint8), *made)

    def run(*values, results=None):
        return (_state(_device(values)), *_evaluate(overload, values, results))

    meta.__signature__ = _signature(overload)
    return _executor.register_operator(f"{name}_with_state", meta=meta, fn=run, tags=("random",))


def _device(values):
    return next((t.device for _, t in places(values)), torch.device("cpu"))


def _state(device):
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


@contextlib.contextmanager
def _again(state, device):
    """The random numbers that followed a state."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        if state is not None and device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        elif state is not None:
            torch.set_rng_state(state)
        yield


def _backward(overload, name):
    def meta(gradients, state, differentiable, paths, *values, results=None):
        inputs = [at(values, path) for path in paths]
        return _several([TensorProxy(shape=tuple(t.shape), dtype=t.dtype, device=t.device) for t in inputs])

    def run(gradients, state, differentiable, paths, *values, results=None):
        with _autograd(), _again(state, _device(values)) if state is not None else contextlib.nullcontext():
            # Of their own, so that nothing flows past them.
            values = map_tensors(values, lambda t: t.detach())
            inputs = [at(values, path).requires_grad_() for path in paths]
            outputs = _evaluate(overload, values, results)
            pairs = [(outputs[i], g) for i, g in zip(differentiable, gradients, strict=True)
                     if outputs[i].requires_grad]
            made = torch.autograd.grad(
                [t for t, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True, materialize_grads=True
            )
        return _several(made)

    meta.__signature__ = _signature(overload, "gradients", "state", "differentiable", "paths")
    return _executor.register_operator(f"{name}_backward", meta=meta, fn=run)


_AUTOGRAD_KEYS = [
    getattr(torch._C.DispatchKey, name)
    for name in ("ADInplaceOrView", "AutogradOther", "AutogradCPU", "AutogradCUDA", "AutogradFunctionality")
    if hasattr(torch._C.DispatchKey, name)
]


class _autograd:
    """Programs run below autograd; this brings it back for a scope."""

    def __enter__(self):
        excluded = torch._C._dispatch_tls_local_exclude_set()
        for key in _AUTOGRAD_KEYS:
            excluded = excluded.remove(key)
        self._keys = torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)
        self._keys.__enter__()
        self._mode = torch.enable_grad()
        self._mode.__enter__()

    def __exit__(self, *exception):
        self._mode.__exit__(*exception)
        self._keys.__exit__(*exception)
