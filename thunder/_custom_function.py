"""torch.autograd.Function inside compiled functions."""

import torch
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils import checkpoint

from ._marks import refusal

# What keeps the arguments of a checkpoint that is not reentrant, in versions that have it: its backward must not run.
_INPUT_SAVER = getattr(checkpoint, "_NoopSaveInputs", None)


class _Context:
    """What forward() and backward() get as ctx: their own attributes, and what PyTorch's has."""

    def __init__(self, needs_input_grad):
        self.needs_input_grad = needs_input_grad
        self.materialize_grads = True
        self.saved_tensors = ()
        self._not_differentiable = ()
        self._dirty = ()

    @property
    def saved_variables(self):
        return self.saved_tensors

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors):
        pass

    def set_materialize_grads(self, value):
        self.materialize_grads = value

    def mark_non_differentiable(self, *tensors):
        self._not_differentiable = tensors

    def mark_dirty(self, *tensors):
        self._dirty = tensors


def apply(tracer, cls, args):
    """cls.apply(*args): forward() is recorded as it runs; backward(), recorded too, becomes its gradient."""
    # What a program computes again is decided by its own passes.
    if cls is _INPUT_SAVER:
        return args[0].detach()
    if cls is checkpoint.CheckpointFunction:  # its backward runs the function and autograd again
        function, _preserve_rng_state, *inputs = args
        return tracer.call_user(function, tuple(inputs))
    if cls is BackwardHookFunction:
        raise refusal(
            "[register_full_backward_hook] a module's backward hooks inside of a compiled function are not supported: "
            "they are Python that runs in the backward. Register hooks on what the function is given or returns"
        )
    wanted = tuple(isinstance(a, torch.Tensor) and tracer.has_gradient(a) for a in args)
    ctx = _Context(wanted)
    with torch.no_grad():
        results = _forward(tracer, cls, ctx, args)
    if ctx._dirty:
        raise refusal(f"[{cls.__name__}] mark_dirty() inside a compiled function is not supported")
    several = isinstance(results, tuple)
    outputs = list(results) if several else [results]
    carried = [i for i, t in enumerate(outputs) if _carries_gradient(ctx, t)]
    if not (torch.is_grad_enabled() and any(wanted) and carried):
        return results

    def backward(*gradients):
        given = dict(zip(carried, gradients, strict=True))
        for i, t in enumerate(outputs):
            if i not in given:
                zeros = isinstance(t, torch.Tensor) and ctx.materialize_grads
                given[i] = torch.zeros_like(t) if zeros else None
        with torch.no_grad():
            made = tracer.call_user(cls.backward, (ctx, *(given[i] for i in range(len(outputs)))))
        made = made if isinstance(made, tuple) else (made,)
        if len(made) > len(args) and all(g is None for g in made[len(args) :]):
            made = made[: len(args)]  # as PyTorch allows
        if len(made) != len(args):
            raise RuntimeError(
                f"function {cls.__name__}Backward returned an incorrect number of gradients (expected {len(args)}, "
                f"got {len(made)})"
            )
        return [g for g, needed in zip(made, wanted, strict=True) if needed]

    inputs = [a for a, needed in zip(args, wanted, strict=True) if needed]
    for i, t in zip(carried, tracer.with_gradient([outputs[i] for i in carried], inputs, backward, cls.__name__),
                    strict=True):
        outputs[i] = t
    return tuple(outputs) if several else outputs[0]


def _forward(tracer, cls, ctx, args):
    if cls.setup_context is torch.autograd.Function.setup_context:
        return tracer.call_user(cls.forward, (ctx, *args))
    results = tracer.call_user(cls.forward, args)
    tracer.call_user(cls.setup_context, (ctx, args, results))
    return results


def _carries_gradient(ctx, t):
    if not isinstance(t, torch.Tensor) or any(t is n for n in ctx._not_differentiable):
        return False
    return t.dtype.is_floating_point or t.dtype.is_complex
