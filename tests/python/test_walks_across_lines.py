"""Elements computed from tensors that lie across the result's lines of memory, beside eager's."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE
from torch.testing import assert_close

import thunder

FUNCTIONS = {
    "copy": lambda x, y: (x.transpose(-1, -2) + 1).contiguous(),
    "two orders": lambda x, y: x.transpose(-1, -2).contiguous() * 2 + y,
    "logsigmoid": lambda x, y: F.logsigmoid(x.transpose(-1, -2)).contiguous(),
    "flipped": lambda x, y: x.flip(-2).transpose(-1, -2).contiguous() - y,
    "part": lambda x, y: x[..., 1:, :].transpose(-1, -2).contiguous() * 3,
    "clamped": lambda x, y: x.transpose(-1, -2).clamp(-1, 0.5).contiguous(),
    "of both": lambda x, y: torch.maximum(x.transpose(-1, -2), y).contiguous(),
}
SHAPES = [(64, 128), (33, 65), (1, 40), (40, 1), (200, 9), (9, 200), (3, 31, 70), (2, 64, 64), (4, 0), (0, 4)]


def data(shape, dtype):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(shape, generator=generator)
    if values.numel() > 2:
        values.view(-1)[1] = float("nan")
    return values.to(DEVICE, dtype)


def strides(t):
    """Of dimensions with more than one element: those of the others mean nothing."""
    return [stride for stride, size in zip(t.stride(), t.shape, strict=True) if size > 1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=["f32", "bf16", "f64"])
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_as_eager(f, dtype):
    near = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    for shape in SHAPES:
        x, y = data(shape, dtype), data((*shape[:-2], shape[-1], shape[-2]), dtype)
        actual = thunder.jit(f)(x, y)
        assert_close(actual, f(x, y), equal_nan=True, **near)
        assert strides(actual) == strides(f(x, y))


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradients_as_eagers(f):
    for shape in [(64, 128), (33, 65), (1, 40), (3, 31, 70)]:
        results = []
        for g in (f, thunder.jit(f)):
            x = torch.linspace(-3, 3, torch.Size(shape).numel(), device=DEVICE).view(shape).requires_grad_()
            y = x.detach().transpose(-1, -2).contiguous().mul(0.7).requires_grad_()
            out = g(x, y)
            out.backward(torch.linspace(-1, 1, out.numel(), device=DEVICE).view(out.shape))
            results.append((x.grad, y.grad))
        for expected, actual in zip(*results, strict=True):
            assert (expected is None) == (actual is None)
            if expected is not None:
                assert_close(actual, expected)


def clamped(x, low, high):
    return x.clamp(low, high) * 1


EXTREMES = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0]


@pytest.mark.parametrize("f", [torch.maximum, torch.minimum, torch.fmax, torch.fmin])
def test_extremes_of_two(f):
    """With tensors on both sides, and with a number on either."""
    pairs = torch.tensor(list(itertools.product(EXTREMES, EXTREMES)) * 3, device=DEVICE)
    x, y = pairs.unbind(1)
    assert_close(thunder.jit(lambda x, y: f(x, y) + 0)(x, y), f(x, y) + 0, rtol=0, atol=0, equal_nan=True)
    for bound in (0.0, 1.0, -1.0, float("inf")):
        for low, high in ((bound, None), (None, bound), (-1.0, bound)):
            assert_close(thunder.jit(clamped)(x, low, high), clamped(x, low, high), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool])
@pytest.mark.parametrize("by", [torch.maximum, torch.minimum])
def test_extremes_that_no_kernel_computes(by, dtype):
    """One operator alone is PyTorch's."""
    x = torch.tensor([-2, 0, 1, 3], device=DEVICE).to(dtype)
    for f in (lambda x: by(x, x.flip(0)), lambda x: by(x, torch.ones((), dtype=x.dtype, device=x.device))):
        assert_close(thunder.jit(f)(x), f(x), rtol=0, atol=0)
    if dtype.is_floating_point:
        y = x.clone().requires_grad_()
        F.relu(y).sum().backward()
        z = x.clone().requires_grad_()
        thunder.jit(F.relu)(z).sum().backward()
        assert_close(z.grad, y.grad, rtol=0, atol=0)
