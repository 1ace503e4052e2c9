"""torch.autograd.grad with create_graph=True inside of compiled functions, of PyTorch's operators: their second
derivatives are eager's."""

import pytest
import short_run
import torch
from op_checks import gradient_dtype, name_of, op_db, samples, tensors
from torch.testing import assert_close

import thunder

PARTS = 8
# Of which eager's first gradient is another one with create_graph=True.
DIFFERS_IN_EAGER = {"as_strided_scatter"}
# At zero, where there is none.
UNDEFINED = {"linalg.norm.subgradients_at_zero"}


def scalar(found):
    """Of everything that has a gradient, with weights that tell elements apart."""
    found = [t for t in tensors(found) if t.requires_grad and t.dtype.is_floating_point]
    weights = [torch.linspace(0.5, 1.5, t.numel(), dtype=torch.float64).view(t.shape) for t in found]
    return sum((t.double() * w).sum() for t, w in zip(found, weights, strict=True))


def differentiable(input, args, kwargs):
    return [t for t in tensors([input, *args, *kwargs.values()]) if t.requires_grad]


def second(fn, sample):
    torch.manual_seed(0)
    first = fn(sample.input, *sample.args, **sample.kwargs)
    inputs = differentiable(sample.input, sample.args, sample.kwargs)
    value = scalar([g for g in first if g is not None])
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return first, None
    return first, torch.autograd.grad(value, inputs, allow_unused=True)


def or_zeros(g, other):
    """A gradient that is not there is zeros, and both are None where neither is."""
    return torch.zeros_like(other) if g is None and other is not None else g


def checked(op, sample):
    """Whether the program's own second derivative was compared; a name where eager ran."""

    def first(input, *args, **kwargs):
        value = scalar(op.op(input, *args, **kwargs))
        inputs = differentiable(input, args, kwargs)
        return torch.autograd.grad(value, inputs, create_graph=True, allow_unused=True)

    try:
        expected = second(first, sample)
    except (RuntimeError, AttributeError, TypeError):
        return False  # eager's: its operator has no second derivative for this sample, or no gradient
    f = thunder.jit(first)
    got = second(f, sample)
    if thunder.compile_stats(f)["eager_calls"]:
        return False
    for a, b in zip(got, expected, strict=True):
        if a is None or b is None:
            zeros = b if a is None else a
            assert zeros is None or all(g is None or g.abs().max() < 1e-12 for g in zeros if g is None or g.numel())
            continue
        for x, y in zip(a, b, strict=True):
            assert_close(or_zeros(x, y), or_zeros(y, x), equal_nan=True)
    return expected[1] is not None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_operators(part):
    compared, differ = 0, []
    for op in op_db[part::PARTS]:
        name = name_of(op)
        dtype = gradient_dtype(op, "cpu") if op.supports_gradgrad else None
        if dtype != torch.float64 or name in DIFFERS_IN_EAGER | UNDEFINED or not short_run.taken("inside " + name, 3):
            continue
        for sample in samples(op, "cpu", dtype, 4 if short_run.ALL else 1, requires_grad=True, only=0.5):
            try:
                compared += checked(op, sample)
            except Exception as e:
                differ.append(f"{name}: {type(e).__name__} {str(e).splitlines()[0]}")
    assert not differ and compared > 5, "\n".join(differ)
