"""Gradients of all operators in bf16, and on a GPU in f16: as near to those of float64 as eager's, and of its dtype.

test_ops.py compares gradients in float64, where nothing is rounded to 16 bits and no kernel gets two dtypes.
"""

import pytest
import torch
from devices import DEVICE, ON_CPU
from op_checks import (
    REFERENCES,
    EagerFails,
    compiled,
    error_norm,
    name_of,
    op_db,
    runs_on,
    samples,
    seeded,
    tensors,
    widened,
)

DTYPES = (torch.bfloat16,) if ON_CPU else (torch.bfloat16, torch.float16)


def has_gradient(op, dtype):
    if not op.supports_autograd or not runs_on(op, DEVICE) or op.name.startswith("jiterator"):
        return False
    return dtype in op.supported_backward_dtypes(DEVICE) and torch.float64 in op.supported_backward_dtypes(DEVICE)


def gradients(fn, sample, given, cotangents=None):
    """Of the results, by the inputs that require a gradient; the cotangents, which are made where there are none."""
    args, kwargs = given
    inputs = [t for t in tensors(given) if t.requires_grad]
    process = sample.output_process_fn_grad or (lambda x: x)
    outputs = [t for t in tensors(process(seeded(fn, *args, **kwargs))) if t.requires_grad]
    if not inputs or not outputs:
        raise EagerFails("nothing requires a gradient")
    if cotangents is None:
        cotangents = [torch.randn_like(t) for t in outputs]
    cotangents = [c.to(t.dtype) for c, t in zip(cotangents, outputs, strict=True)]
    return torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True), cotangents


def largest(t):
    return t.abs().max().item() if t.numel() else 0.0


def check(op, sample):
    given = (sample.input, *sample.args), sample.kwargs
    eager = REFERENCES.get(op.name, op)
    leaves = [t.requires_grad for t in tensors(given)]
    try:
        expected, cotangents = gradients(eager, sample, given)
        wide = widened(given)
        for t, needs in zip(tensors(wide), leaves, strict=True):
            t.requires_grad_(needs)
        exact, _ = gradients(eager, sample, wide, cotangents)
    except Exception as e:
        raise EagerFails(str(e)) from e
    actual, _ = gradients(compiled(op), sample, given, cotangents)
    for mine, theirs, best in zip(actual, expected, exact, strict=True):
        assert (mine is None) == (theirs is None) or not any(g.any() for g in (mine, theirs) if g is not None)
        if mine is None or theirs is None or theirs.layout is not torch.strided:
            continue
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        if not best.any():  # what cancels there is rounded here
            assert largest(mine) <= 2 * torch.finfo(mine.dtype).eps * max(map(largest, cotangents))
            continue
        allowed = 2 * error_norm(theirs, best) + 2 * torch.finfo(mine.dtype).eps
        assert error_norm(mine, best) <= allowed, f"error {error_norm(mine, best)}, eager's {error_norm(theirs, best)}"


CASES = [(op, dtype) for op in op_db for dtype in DTYPES if has_gradient(op, dtype)]


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda x: str(x) if isinstance(x, torch.dtype) else name_of(x))
def test_gradient(op, dtype):
    for sample in samples(op, DEVICE, dtype, 1 if ON_CPU else 3, requires_grad=True, only=0.6):
        try:
            check(op, sample)
        except EagerFails as e:
            pytest.skip(f"eager has none to compare with: {e}")
