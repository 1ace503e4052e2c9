"""PyTorch's operators that have no record, and custom ones: called as they are.

Metadata comes from PyTorch's own meta functions, the gradient from its autograd, which computes the operator again in
the backward.  Operators that write to an argument, return views, draw random numbers or give sizes that depend on data
are not among them.
"""

import functools
import inspect
import keyword

import torch
from torch._ops import OpOverload, OpOverloadPacket

from ._tracing import location
from .core.proxies import TensorProxy
from .extend import OperatorExecutor, get_grad, put_grad, register_grad

_executor = OperatorExecutor("torch_ops")


def resolve(func, args, kwargs):
    """(the operator that this call means, its arguments in the schema's order); None if there is no such operator."""
    overload = _overload(func, args, kwargs)
    if overload is None or not _is_plain(overload):
        return None
    values, given = [], dict(kwargs)
    for i, a in enumerate(overload._schema.arguments):
        if not a.kwarg_only and i < len(args):
            values.append(args[i])
        elif a.name in given:
            values.append(given.pop(a.name))
        elif a.has_default_value():
            values.append(a.default_value)
        else:
            return None
    return (_operator(overload), values) if not given else None


def _overload(func, args, kwargs):
    if isinstance(func, OpOverload):
        return func
    packet = _packet(func)
    if packet is None:
        return None
    try:
        return getattr(packet, torch._C._jit_resolve_packet(packet._qualified_op_name, *args, **kwargs))
    except RuntimeError:  # the arguments are those of no overload
        return None


def _packet(func):
    if isinstance(func, OpOverloadPacket):
        return func
    packet = getattr(torch.ops.aten, getattr(func, "__name__", ""), None)
    return packet if isinstance(packet, OpOverloadPacket) else None


def has_plain_overload(func):
    """Whether some calls of a torch function mean an operator of the kind."""
    if isinstance(func, OpOverload):
        return _is_plain(func)
    packet = _packet(func)
    return packet is not None and any(_is_plain(getattr(packet, name)) for name in packet.overloads())


def _is_plain(overload):
    schema = overload._schema
    return (
        torch.Tag.nondeterministic_seeded not in overload.tags
        and all(a.alias_info is None for a in (*schema.arguments, *schema.returns))
        and len(schema.returns) > 0
        and all(str(r.type) == "Tensor" for r in schema.returns)
    )


def _call(overload, values):
    arguments = overload._schema.arguments
    positional = [v for v, a in zip(values, arguments, strict=True) if not a.kwarg_only]
    named = {a.name: v for v, a in zip(values, arguments, strict=True) if a.kwarg_only}
    return overload(*positional, **named)


def _signature(overload, *first):
    names = [f"_{a.name}" if keyword.iskeyword(a.name) else a.name for a in overload._schema.arguments]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(n, kind) for n in (*first, *names)])


def _map(value, fn):
    if isinstance(value, (list, tuple)):
        return [_map(v, fn) for v in value]
    return fn(value) if isinstance(value, torch.Tensor) else value


def _results(value):
    """As their metadata has them: dense in the order of their dimensions."""
    return tuple(t.contiguous() for t in value) if isinstance(value, (list, tuple)) else value.contiguous()


@functools.cache
def _operator(overload):
    """The symbol of Thunder's that runs a PyTorch operator, with its gradient."""
    name = str(overload).replace(".default", "").replace(".", "_")

    def meta(*values):
        return _metadata(overload, values)

    meta.__signature__ = _signature(overload)
    symbol = _executor.register_operator(name, meta=meta, fn=lambda *values: _results(_call(overload, values)))
    backward = _backward(overload, name)

    def rule(*values):
        results = symbol(*values)
        outputs = results if isinstance(results, tuple) else (results,)
        differentiable = [i for i, t in enumerate(outputs) if t.dtype.is_floating_point or t.dtype.is_complex]
        paths = [path for path, t in _tensors(values) if t.requires_grad]
        if differentiable and paths:
            gradients = backward([get_grad(outputs[i]) for i in differentiable], differentiable, paths, *values)
            for path, g in zip(paths, gradients if len(paths) > 1 else (gradients,), strict=True):
                put_grad(_at(values, path), g)
        return results

    rule.__signature__ = _signature(overload)
    register_grad(symbol, rule)
    return symbol


def _backward(overload, name):
    def meta(gradients, differentiable, paths, *values):
        inputs = [_at(values, path) for path in paths]
        made = tuple(TensorProxy(shape=tuple(t.shape), dtype=t.dtype, device=t.device) for t in inputs)
        return made if len(made) > 1 else made[0]

    def run(gradients, differentiable, paths, *values):
        with _autograd():
            # Of their own, so that nothing flows past them.
            values = _map(values, lambda t: t.detach())
            inputs = [_at(values, path).requires_grad_() for path in paths]
            results = _call(overload, values)
            outputs = results if isinstance(results, (list, tuple)) else (results,)
            made = torch.autograd.grad(
                [outputs[i] for i in differentiable], inputs, list(gradients), allow_unused=True, materialize_grads=True
            )
        return tuple(g.contiguous() for g in made) if len(made) > 1 else made[0].contiguous()

    meta.__signature__ = _signature(overload, "gradients", "differentiable", "paths")
    return _executor.register_operator(f"{name}_backward", meta=meta, fn=run)


def _tensors(values):
    for i, v in enumerate(values):
        if isinstance(v, torch.Tensor):
            yield [i], v
        elif isinstance(v, (list, tuple)):
            yield from (([i, j], t) for j, t in enumerate(v) if isinstance(t, torch.Tensor))


def _at(values, path):
    return functools.reduce(lambda v, i: v[i], path, values)


def _unsupported(overload, why):
    return NotImplementedError(
        f"[{overload._schema.name.rpartition('::')[2]}] this torch function is not supported inside a compiled "
        f"function: {why}. Call it outside, or write it with supported operators\n  at {location()}"
    )


def _metadata(overload, values):
    from torch._subclasses.fake_tensor import (  # slow to import, and rarely needed
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
        UnsupportedOperatorException,
    )

    with torch._C.DisableTorchFunction(), FakeTensorMode():
        fakes = _map(values, lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device))
        try:
            results = _call(overload, fakes)
        except (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException):
            raise _unsupported(overload, "its results' sizes are not known before it runs") from None
        several = isinstance(results, (list, tuple))
        if any(t.layout is not torch.strided for t in (results if several else (results,))):
            raise _unsupported(overload, "it makes tensors that are not dense")
        described = [(t.shape, t.dtype, t.device) for t in (results if several else (results,))]
    made = tuple(TensorProxy(shape=[int(n) for n in s], dtype=d, device=v) for s, d, v in described)
    return made if several else made[0]


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
