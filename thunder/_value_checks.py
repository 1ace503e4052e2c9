"""Torch functions that look at a tensor's values before they compute."""

import math

import torch

from ._marks import ours
from ._tracing import current_tracer, location
from .extend import OperatorExecutor, get_grad, put_grad, register_grad

_executor = OperatorExecutor("checks")


def _require_nonnegative(var):
    if torch.any(var < 0):
        raise ValueError("var has negative entry/entries")
    return var.clone()


_nonnegative = _executor.register_operator("require_nonnegative", like=lambda var: var.clone(), fn=_require_nonnegative)


def _through(var):
    checked = _nonnegative(var)
    put_grad(var, get_grad(checked))
    return checked


register_grad(_nonnegative, _through)


def _assert_meta(condition, message):
    """torch._assert_async(): nothing reads it, and it stays where the program asks it."""


def _run_assert(condition, message):
    torch._assert_async(condition, *message)


_assert = _executor.register_operator("assert_async", meta=_assert_meta, fn=_run_assert, tags=("state",))


def assert_async(func, args, kwargs):
    """Of a tensor's value, which a GPU looks at when it comes there: no reason for the host to wait."""
    given = dict(zip(("input", "assert_msg"), args, strict=False)) | kwargs
    if not isinstance(given.get("input"), torch.Tensor):
        return func(*args, **kwargs)
    return _assert(given.pop("input"), tuple(given.values()))


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """torch.nn.functional.gaussian_nll_loss in torch operators."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * torch.ones_like(input)
    else:
        var = _nonnegative(var)
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.dim() != var.dim() or sum(y for x, y in zip(input.shape, var.shape, strict=True) if x != y) != 1:
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = var.clone()
    with torch.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def tensor_split(input, *args, **kwargs):
    """Where to split may be said by a tensor, whose values eager reads on the host."""
    tracer = current_tracer()
    given = dict(zip(("indices_or_sections", "dim"), args, strict=False)) | kwargs
    name = next((n for n in ("indices", "sections", "tensor_indices_or_sections") if n in given), None)
    if name is not None:
        given["indices_or_sections"] = given.pop(name)
    places = given.get("indices_or_sections")
    if isinstance(places, torch.Tensor):
        if not (places.device.type == "cpu" and places.dtype is torch.int64 and places.ndim < 2):
            raise ours(RuntimeError(
                "[tensor_split] expected tensor_indices_or_sections on the CPU, in int64 and of at most one dimension, "
                f"got {tracer.describe(places)}\n  at {location()}"
            ))
        given["indices_or_sections"] = tracer.handle(torch.Tensor.tolist, (places,), {})
    return tracer.apply("torch.tensor_split", (input,), given)
