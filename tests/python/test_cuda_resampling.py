"""Resampling, pooling and padding by a mirror: results and gradients against float64, on a GPU as parts of kernels."""

import functools
import itertools

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE, ON_CPU

import thunder

ROUNDOFF = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
FORMATS = {1: [None], 2: [None, torch.channels_last], 3: [None, torch.channels_last_3d]}
SIZES = {1: [(8,), (7,), (1,)], 2: [(8, 16), (7, 5), (1, 6)], 3: [(4, 4, 8), (3, 5, 2)]}


def operand(sizes, dtype, memory_format=None):
    numbers = torch.Generator().manual_seed(0)
    x = torch.randn(sizes, generator=numbers, dtype=torch.float64).to(DEVICE, dtype)
    return x if memory_format is None else x.contiguous(memory_format=memory_format)


def gradients(f, x, cotangent):
    x = x.detach().requires_grad_()
    out = f(x)
    return out.detach(), *torch.autograd.grad(out, x, cotangent(out))


def cotangent(out):
    numbers = torch.Generator().manual_seed(1)
    return torch.randn(out.shape, generator=numbers, dtype=torch.float64).to(out.device, out.dtype)


def check(f, x, whole=()):
    """Both as near to float64's as one rounding makes them; none of the operators in `whole` runs on a GPU."""
    compiled = thunder.jit(f)
    got, eager = gradients(compiled, x, cotangent), gradients(f, x, cotangent)
    # Places of samples are found in the operand's arithmetic, so float64's are another function near a step.
    # They are computed on the CPU, whose gradients of overlapping windows are right in channels_last, too.
    given = cotangent(eager[0]).double().cpu()
    exact = [t.to(x.device) for t in gradients(f, x.double().cpu(), lambda out: given)]
    for a, e, y in zip(got, exact, eager, strict=True):
        assert (a.dtype, a.shape) == (y.dtype, y.shape)
        error, of_eager = ((t.double() - e).norm() / e.norm().clamp(min=1e-30) for t in (a, y))
        # Where eager itself is far off, it is no measure.
        allowed = max(2 * ROUNDOFF[x.dtype], min(1.5 * of_eager, 20 * ROUNDOFF[x.dtype]))
        assert error <= allowed, (tuple(a.shape), error, of_eager)
    assert got[0].stride() == eager[0].stride() or 1 in got[0].shape
    if x.is_cuda:
        text = "\n".join(str(t[-1]) for t in (thunder.last_traces(compiled), thunder.last_backward_traces(compiled)))
        assert not [name for name in whole if name in text], text
    return compiled


def multiplied(f):
    """With pointwise operators on both sides."""
    return lambda x: f(x.relu() - 0.25) * 2


def modes(n):
    return {
        1: ["nearest", "nearest-exact", "linear"],
        2: ["nearest", "nearest-exact", "bilinear", "bicubic"],
        3: ["nearest", "nearest-exact", "trilinear"],
    }[n]


def cases(n, dtype):
    """(how, sizes, layout): each dtype has a part of the grid."""
    how = [{"scale_factor": 2}, {"scale_factor": 1.5}, {"scale_factor": 0.5}, {"size": (9, 7, 5)[:n]}]
    if dtype == torch.float32:
        return [(h, s, None) for h, s in itertools.product(how, SIZES[n]) if min(s) > 1 or h != how[2]]
    if dtype == torch.bfloat16:
        return list(itertools.product(how, SIZES[n][:1], FORMATS[n]))
    return [(how[3], SIZES[n][1], None)]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_interpolate(n, dtype):
    for mode, (how, sizes, layout) in itertools.product(modes(n), cases(n, dtype)):
        for align in [None] if mode.startswith("nearest") else [False, True]:
            x = operand((2, 16, *sizes), dtype, layout)
            resized = functools.partial(F.interpolate, mode=mode, align_corners=align, **how)
            check(multiplied(resized), x, ["upsample"])


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_large_images(mode):
    for sizes, to in [((2, 8, 56, 56), (224, 224)), ((1, 3, 100, 33), (77, 129)), ((3, 4, 64, 64), (128, 64))]:
        for dtype in (torch.bfloat16, torch.float32):
            x = operand(sizes, dtype)
            check(multiplied(functools.partial(F.interpolate, size=to, mode=mode)), x, ["upsample"])


def test_sizes_that_vary():
    compiled = thunder.jit(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear") + 1)
    for sizes in [(2, 3, 8, 8), (3, 3, 8, 8), (4, 3, 8, 10), (1, 3, 12, 9), (5, 3, 1, 1)]:
        x = operand(sizes, torch.float32)
        for a, b in zip(
            gradients(compiled, x, cotangent),
            gradients(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear") + 1, x, cotangent),
            strict=True,
        ):
            torch.testing.assert_close(a, b)


def test_one_infinite_gradient_spoils_only_what_it_reaches():
    x = operand((1, 1, 16, 16), torch.float32).requires_grad_()
    out = thunder.jit(lambda x: F.interpolate(x, size=(40, 40), mode="bilinear"))(x)
    given = torch.zeros_like(out)
    given[0, 0, 20, 20] = float("inf")
    (g,) = torch.autograd.grad(out, x, given)
    assert 1 <= (~g.isfinite()).sum() <= 4


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_means_of_windows(dtype):
    windows = [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 3, 0), (4, 2, 2), (1, 1, 0)]
    grid = {
        torch.float32: itertools.product(windows, [(0, 0), (0, 1), (1, 0), (1, 1)], [None], [(3, 5, 9, 11)]),
        torch.bfloat16: itertools.product(windows, [(0, 1)], FORMATS[2], [(2, 16, 8, 16)]),
    }
    for (kernel, stride, padding), (ceil, counted), layout, sizes in grid.get(dtype, ()):
        x = operand(sizes, dtype, layout)
        options = {"ceil_mode": bool(ceil), "count_include_pad": bool(counted)}
        check(
            multiplied(functools.partial(F.avg_pool2d, kernel_size=kernel, stride=stride, padding=padding, **options)),
            x,
            ["avg_pool2d"],
        )
    check(lambda x: F.avg_pool2d(x, 2, divisor_override=3) * 2, operand((2, 3, 8, 8), dtype), ["avg_pool2d"])
    check(lambda x: F.avg_pool2d(x, 2) * 2, operand((3, 8, 7), dtype), ["avg_pool2d"])
    check(lambda x: F.avg_pool1d(x, 3, 2, 1) * 2, operand((2, 3, 17), dtype), ["avg_pool"])
    if not ON_CPU or dtype in (torch.float32, torch.float64):  # PyTorch has no other kernels on the CPU
        check(lambda x: F.avg_pool3d(x, 2) * 2, operand((2, 3, 4, 6, 5), dtype), ["avg_pool3d"])
    check(lambda x: F.adaptive_avg_pool2d(x, (4, 2)) * 2, operand((2, 3, 8, 8), dtype), ["adaptive_avg_pool2d"])
    check(lambda x: F.avg_pool2d(x, 7), operand((2, 3, 14, 14), dtype))


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_gradient_of_maxima(dtype):
    for (kernel, stride, padding), layout in itertools.product([(3, 2, 1), (2, 2, 0), (3, 1, 1)], FORMATS[2]):
        for sizes in [(2, 16, 16, 16), (1, 3, 9, 11), (1, 1, 4, 4)]:
            x = operand(sizes, dtype, layout)
            pooled = functools.partial(F.max_pool2d, kernel_size=kernel, stride=stride, padding=padding)
            check(multiplied(pooled), x, ["max_pool2d_with_indices_backward"])
    check(lambda x: F.max_pool2d(x.relu(), 3, 2, 1, dilation=2), operand((2, 3, 16, 16), dtype))
    check(lambda x: F.max_pool3d(x.relu(), 2), operand((2, 3, 4, 6, 5), dtype), ["indices_backward"])


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_padding_by_its_own_elements(dtype):
    for mode, layout in itertools.product(["reflect", "replicate"], FORMATS[2]):
        for sizes, pads in [((2, 16, 8, 16), (3, 3, 3, 3)), ((1, 3, 5, 7), (2, 0, 1, 4)), ((2, 3, 5, 5), (0, 0, 0, 1))]:
            padded = functools.partial(F.pad, pad=pads, mode=mode)
            check(multiplied(padded), operand(sizes, dtype, layout), ["_pad2d"])
        check(multiplied(functools.partial(F.pad, pad=(2, -1, 1, 0), mode=mode)), operand((2, 3, 6, 6), dtype, layout))
        check(multiplied(functools.partial(F.pad, pad=(2, 3), mode=mode)), operand((2, 3, 9), dtype), ["_pad1d"])
