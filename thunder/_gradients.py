"""torch.autograd.grad inside compiled functions: its arguments, as PyTorch takes them."""

import functools
import inspect
import operator

import torch

from . import _C
from ._tracing import TensorProxy, current_tracer

_SIGNATURE = inspect.signature(torch.autograd.grad)


def grad(func, args, kwargs):
    """The gradients become a part of the program; what eager refuses, it refuses itself."""
    tracer = current_tracer()
    bound = _SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    a = bound.arguments
    if not a["only_inputs"]:
        _leave(tracer, "with only_inputs=False")
    if _C.any_autocast():
        _leave(tracer, "under autocast")
    named, outputs = a["inputs"], _tensors(tracer, a["outputs"])
    inputs = _tensors(tracer, list(named.values()) if type(named) is dict else named)
    if any(map(_has_hooks, inputs)):
        _leave(tracer, "with respect to a tensor that has hooks")
    batched = bool(a.get("is_grads_batched"))
    cotangents = _cotangents(tracer, outputs, a["grad_outputs"], batched)
    create = bool(a["create_graph"])
    retain = create if a["retain_graph"] is None else bool(a["retain_graph"])
    materialize = bool(a.get("materialize_grads"))
    made = tracer.gradients(outputs, cotangents, inputs, create, retain, batched)
    if any(g is None for g in made):
        if not (a["allow_unused"] or materialize):
            _leave(tracer, "with respect to what the result does not depend on")
        if materialize and batched:
            _leave(tracer, "with is_grads_batched=True and zeros for what the result does not depend on")
        if materialize:
            made = [_zeros(tracer, t, create) if g is None else g for g, t in zip(made, inputs, strict=True)]
    return dict(zip(named, made, strict=True)) if type(named) is dict else tuple(made)


def _leave(tracer, why):
    tracer.leave_to_eager(f"torch.autograd.grad {why}", warns=True)


def _tensors(tracer, given):
    found = [given] if isinstance(given, torch.Tensor) else list(given)
    if not found or not all(isinstance(t, torch.Tensor) for t in found):
        _leave(tracer, "of what is no tensor")
    return found


def _has_hooks(tensor):
    """Whether a tensor from outside has hooks, which see, and may replace, its gradient."""
    with torch._C.DisableTorchFunction():
        return not isinstance(tensor, TensorProxy) and bool(tensor._backward_hooks)


def _cotangents(tracer, outputs, given, batched):
    """One for each output, of its shape and dtype; None stands for ones.  Or a batch of such for each."""
    if given is None:
        given = [None] * len(outputs)
    given = [given] if isinstance(given, torch.Tensor) else list(given)
    if len(given) != len(outputs):
        _leave(tracer, "with another number of grad_outputs")
    if batched and any(not isinstance(g, torch.Tensor) or not tracer.shape(g) for g in given):
        _leave(tracer, "with is_grads_batched=True and without a batch for each output")
    first = tracer.shape(given[0])[:1] if batched else ()
    for output, g in zip(outputs, given, strict=True):
        shape = (*first, *tracer.shape(output))
        if g is None:
            fits = functools.reduce(operator.mul, shape, 1) == 1 and output.dtype.is_floating_point
        else:
            fits = isinstance(g, torch.Tensor) and tracer.shape(g) == shape and g.dtype == output.dtype
        if not fits:
            _leave(tracer, "with grad_outputs that do not fit the outputs")
    return given


def _zeros(tracer, like, create_graph):
    zeros = tracer.apply("torch.zeros_like", (like,))
    if create_graph:
        tracer.require_grad(zeros)
    return zeros
