"""What functions that torch.func differentiates, and torch.vmap batches, are to the tracer."""

from types import MappingProxyType

import torch

from . import _C
from ._marks import ours
from ._tracing import current_tracer


class Pullback:
    """The gradient of a recorded function, for any gradients of its results."""

    def __init__(self, number, inputs):
        self._number = number
        # What the function returns may not hold this: there is no program behind it in later calls.
        self._inputs = MappingProxyType(dict(enumerate(inputs)))

    def __call__(self, cotangents):
        tracer = current_tracer()
        if tracer is None:
            raise ours(RuntimeError("[vjp] a gradient of torch.func was kept by a compiled function that has returned"))
        check_tensors(cotangents, "takes something else than tensors")
        gradients = tracer.pull(self._number, cotangents)
        tracer.made(gradients)
        return gradients


def pullback(function, inputs, recording, linear=False, any_cotangent=False):
    """The results of a function of tensors that returns a list of such, and its gradient: Tracer.pullback()."""
    tracer = current_tracer()
    check_tensors(inputs, "differentiates for something else than tensors")
    if _C.any_autocast() or torch.is_inference_mode_enabled():
        leave("is called under autocast or in inference mode")
    results, number = tracer.pullback(function, inputs, recording, linear, any_cotangent)
    made = Pullback(number, inputs)
    tracer.made(results)
    tracer.made(made)
    return results, made


def batched(function, batches, randomness):
    """The results of a function of samples, which returns a list of tensors, for all samples of the batches."""
    tracer = current_tracer()
    try:
        results = tracer.batched(function, batches, randomness)
    except NotImplementedError as e:
        tracer.leave_to_eager(f"torch.vmap: {e}")
    tracer.made(results)
    return results


def leave(why):
    """Eager runs the function, and raises what is wrong."""
    current_tracer().leave_to_eager(f"torch.func {why}")


def check_tensors(values, why):
    if not values or not all(isinstance(t, torch.Tensor) for t in values if t is not None):
        leave(why)
