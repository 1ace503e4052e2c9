"""Sliding blocks of images (unfold, fold): results, gradients and strides as eager's, by views and fused kernels."""

import functools
import itertools
import re

import pytest
import torch
import torch.nn.functional as F
from devices import moved

import thunder

KERNELS = [(1, 1), (3, 3), (2, 5), (9, 1)]
DILATIONS = [1, (2, 1)]
PADDINGS = [0, (4, 2)]
STRIDES = [1, 2, (3, 4)]


def images():
    yield torch.randn(2, 3, 19, 17)
    yield torch.randn(1, 1, 25, 11).to(memory_format=torch.channels_last)
    yield torch.randn(3, 19, 17).transpose(1, 2)
    yield torch.randn(0, 2, 19, 17)


def check(f, x, **tolerances):
    compiled = thunder.jit(f)
    results = []
    for run in (compiled, f):
        given = x.detach().requires_grad_(x.is_floating_point())
        out = run(given)
        weights = torch.arange(out.numel(), device=out.device).view(out.shape).div(7).cos().to(out.dtype)
        results.append((out, torch.autograd.grad(out, given, weights)[0] if out.requires_grad else None))
    for mine, eager in zip(*results, strict=True):
        if eager is not None:
            torch.testing.assert_close(mine, eager, **tolerances)
            assert mine.stride() == eager.stride()
    assert "aten_" not in str(thunder.last_traces(compiled)[-1])
    return compiled


@pytest.mark.parametrize("kernel", KERNELS)
def test_unfold_and_fold(kernel):
    checked = 0
    for dilation, padding, stride in itertools.product(DILATIONS, PADDINGS, STRIDES):
        for x in map(moved, images()):
            try:
                blocks = F.unfold(x, kernel, dilation, padding, stride)
            except RuntimeError:  # no block fits
                continue
            options = {"kernel_size": kernel, "dilation": dilation, "padding": padding, "stride": stride}
            check(functools.partial(F.unfold, **options), x)
            check(functools.partial(F.fold, output_size=x.shape[-2:], **options), torch.randn_like(blocks))
            checked += 1
    assert checked >= 40


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.bool, torch.complex64])
def test_dtypes(dtype):
    x = moved((torch.randn(2, 3, 8, 8) * 2).to(dtype))
    tolerances = {"rtol": 0.02, "atol": 0.02} if dtype is torch.bfloat16 else {}
    check(lambda x: F.unfold(x, 3, padding=1), x, **tolerances)
    check(lambda y: F.fold(y, (8, 8), 3, padding=1), F.unfold(x, 3, padding=1), **tolerances)


def test_overlapping_frames():
    """As of sounds: a kernel of many steps is a sum of few pieces."""
    x = moved(torch.randn(2, 400, 30))
    compiled = check(lambda x: F.fold(x, (1, 400 + 29 * 100), (1, 400), stride=(1, 100)), x)
    assert "ltorch.col2im(" in str(thunder.last_traces(compiled)[0])
    assert 0 < str(thunder.last_traces(compiled)[0]).count("prims.pad(") <= 8


@pytest.mark.parametrize("call", [
    lambda: F.unfold(torch.randn(2, 3, 4, 4), 5), lambda: F.fold(torch.randn(2, 13, 9), (4, 4), 2),
    lambda: F.fold(torch.randn(2, 12, 10), (4, 4), 2), lambda: F.unfold(torch.randn(2, 0, 4, 4), 2),
    lambda: F.unfold(torch.randint(0, 3, (1, 1, 4, 4)), 2), lambda: F.unfold(torch.randn(1, 1, 4, 4), 2, stride=0),
    lambda: F.unfold(torch.randn(1, 1, 4, 4), 2, padding=-1), lambda: F.unfold(torch.randn(1, 1, 4, 4), 0),
])  # fmt: skip
def test_errors(call):
    with pytest.raises(RuntimeError) as eager:
        call()
    with pytest.raises(type(eager.value), match=re.escape(str(eager.value)[:20])):
        thunder.jit(call)()


@pytest.mark.parametrize(
    "shape, dim, size, step", [((), 0, 1, 1), ((7,), 0, 3, 2), ((4, 6), 1, 2, 3), ((4, 6), -2, 4, 1)]
)
def test_windows_in_kernels(shape, dim, size, step):
    check(lambda x: (x.exp().unfold(dim, size, step) * 2).sin(), moved(torch.randn(shape)))


def test_sizes_that_change():
    compiled = thunder.jit(lambda x: F.unfold(x, 3, padding=1), cache="symbolic values")
    for n in (5, 8, 13):
        x = moved(torch.randn(2, 3, n, n + 1))
        torch.testing.assert_close(compiled(x), F.unfold(x, 3, padding=1))
    assert thunder.cache_misses(compiled) == 1
