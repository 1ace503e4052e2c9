"""Attention on a GPU: the executors `cudnn` and `sdpa` against float64, over the kernels, layouts and grouped heads."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import thunder

pytestmark = pytest.mark.gpu


def operands(dtype, heads, kv_heads, rows, size, inside):
    generator = torch.Generator("cuda").manual_seed(rows * size + heads)

    def make(h):
        shape = (2, rows, h, size) if inside else (2, h, rows, size)
        t = torch.randn(shape, generator=generator, device="cuda", dtype=torch.float64).to(dtype)
        return (t.transpose(1, 2) if inside else t).requires_grad_()

    return make(heads), make(kv_heads), make(kv_heads)


def results(fn, tensors, cotangent):
    out = fn(*tensors)
    return [out.detach(), *torch.autograd.grad(out, tensors, cotangent)]


def error(x, exact):
    return ((x.double() - exact).norm() / exact.norm()).item()


CASES = list(
    itertools.product(
        (torch.bfloat16, torch.float16, torch.float32),
        ((8, 8), (8, 2), (8, 1)),
        ((128, 64), (200, 128), (64, 192), (256, 40)),
        (True, False),
        (True, False),
    )
)


@pytest.mark.parametrize("executors", [["cudnn", "sdpa"], ["sdpa"]], ids=["cudnn", "sdpa"])
@pytest.mark.parametrize(("dtype", "heads", "sizes", "causal", "inside"), CASES, ids=str)
def test_attention(dtype, heads, sizes, causal, inside, executors):
    tensors = operands(dtype, *heads, *sizes, inside)
    n = heads[0] // heads[1]

    def fn(q, k, v):
        if n > 1:
            k, v = k.repeat_interleave(n, dim=1), v.repeat_interleave(n, dim=1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    cotangent = torch.randn(tensors[0].shape, device="cuda", dtype=torch.float64)
    with sdpa_kernel(SDPBackend.MATH):
        doubles = [t.detach().double().requires_grad_() for t in tensors]
        exact = results(fn, doubles, cotangent)
    # Not by cuDNN: PyTorch keeps its plans by everything but the gradient's layout, which is another one in eager here.
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        eager = results(fn, tensors, cotangent.to(dtype))
    ours = results(thunder.jit(fn, executors=executors), tensors, cotangent.to(dtype))
    for name, mine, theirs, reference in zip(("out", "dq", "dk", "dv"), ours, eager, exact, strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        allowed = 2 * error(theirs, reference) + torch.finfo(dtype).eps
        assert error(mine, reference) <= allowed, name


def test_the_headline_takes_cudnn_with_small_keys():
    q, k, v = operands(torch.bfloat16, 32, 4, 256, 64, True)

    def fn(q, k, v):
        return F.scaled_dot_product_attention(
            q, k.repeat_interleave(8, dim=1), v.repeat_interleave(8, dim=1), is_causal=True
        )

    compiled = thunder.jit(fn)
    compiled(q, k, v).sum().backward()
    assert k.grad.shape == k.shape
    names = [c.name for c in thunder.last_traces(compiled)[-1].calls]
    assert "cudnnex_grad_forward_scaled_dot_product_attention" in names
    assert not any("repeat_interleave" in name for name in names)


@pytest.mark.parametrize("first", ["eager", "compiled"])
def test_plans_for_other_layouts_of_the_gradient(first):
    """PyTorch's cache of cuDNN's plans does not tell layouts of the gradient apart: ours must not meet eager's."""
    rows = 144 if first == "eager" else 152  # shapes that no other test has
    tensors = operands(torch.bfloat16, 8, 8, rows, 64, False)
    merged = torch.randn(2, rows, 8, 64, device="cuda", dtype=torch.bfloat16).transpose(1, 2)

    def fn(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    with sdpa_kernel(SDPBackend.MATH):
        exact = results(fn, [t.detach().double().requires_grad_() for t in tensors], merged.double())
    compiled = thunder.jit(fn, executors=["cudnn"])
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        for f in (fn, compiled) if first == "eager" else (compiled, fn):
            for got, want in zip(results(f, tensors, merged), exact, strict=True):
                assert error(got, want) < 0.02, f
