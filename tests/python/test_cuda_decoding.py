"""Attention of one query a head under a mask on a GPU: its numbers against float64, and what is left to others."""

import math

import pytest
import torch
import torch.nn.functional as F

import thunder

pytestmark = pytest.mark.gpu

ROUNDOFF = {torch.float32: 1e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}


def taken(compiled):
    return any(c.name == "decoding_attention" for c in thunder.last_traces(compiled)[-1].calls)


def operands(batch=1, heads=8, shared=4, keys=700, size=64, dtype=torch.bfloat16):
    generator = torch.Generator("cuda").manual_seed(0)
    make = lambda *shape: torch.randn(shape, device="cuda", generator=generator).to(dtype)
    return make(batch, heads * shared, 1, size), make(batch, heads, keys, size), make(batch, heads, keys, size)


def exact(q, k, v, mask):
    if mask.dtype == torch.bool and mask.dim() == 4 and mask.shape[1] == mask.shape[2] == 1:
        k, v = (t.masked_fill(~mask.transpose(2, 3), 0) for t in (k, v))
    shared = q.shape[1] // k.shape[1]
    k, v = (t.double().repeat_interleave(shared, 1) for t in (k, v))
    scores = q.double() @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.double()
    return scores.softmax(-1).nan_to_num(0.0) @ v


def attend(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


def check(f, q, k, v, mask, by=True):
    compiled = thunder.jit(f)
    with torch.no_grad():
        out = compiled(q, k, v, mask)
    assert taken(compiled) == by
    wanted = exact(q, k, v, mask)
    assert (out.double() - wanted).abs().max() <= 2 * ROUNDOFF[q.dtype] * max(1.0, wanted.abs().max().item())
    return compiled


def mask_up_to(length, keys, batch=1):
    return (torch.arange(keys, device="cuda") < length).expand(batch, 1, 1, keys)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("size", [8, 24, 64, 80, 96, 128, 256])
@pytest.mark.parametrize("shared", [1, 4, 12])
def test_types_and_sizes(shared, size, dtype):
    for batch in (2, 9):  # clusters of 8 blocks and of 2
        q, k, v = operands(batch, 4, shared, 333, size, dtype)
        check(attend, q, k, v, mask_up_to(200, 333, batch), by=size < 256 or dtype != torch.float32)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("keys", [50, 700, 5000])
def test_no_numbers(keys, dtype):
    """A key that is seen makes results no numbers, one that is not seen makes nothing."""
    q, k, v = operands(2, keys=keys, dtype=dtype)
    mask = mask_up_to(keys - 10, keys, 2)
    k[0, :, keys - 1] = v[0, :, keys - 2] = math.nan
    check(attend, q, k, v, mask)
    k[1, 3, 7] = math.nan
    with torch.no_grad():
        out = thunder.jit(attend)(q, k, v, mask)
    assert out[1, 12:16].isnan().all() and not out[0].isnan().any() and not out[1, :12].isnan().any()


@pytest.mark.parametrize("keys", [1, 63, 64, 65, 1000, 5000])
@pytest.mark.parametrize("batch", [1, 3, 8, 40])
def test_lengths_and_batches(batch, keys):
    q, k, v = operands(batch, keys=keys)
    for length in sorted({1, keys // 2 + 1, keys}):
        check(attend, q, k, v, mask_up_to(length, keys, batch))


@pytest.mark.parametrize("kind", ["random", "additive", "float32", "two dimensions", "rows", "nothing seen", "lowest"])
def test_masks(kind):
    q, k, v = operands(3, keys=500)
    mask = torch.rand(3, 1, 1, 500, device="cuda") < 0.3
    if kind == "additive":
        mask = torch.randn(3, 1, 1, 500, device="cuda", dtype=torch.bfloat16).masked_fill(~mask, -math.inf)
    elif kind == "float32":
        mask = torch.randn(3, 1, 1, 500, device="cuda").masked_fill(~mask, -1e30)
    elif kind == "two dimensions":
        mask = mask[0, 0]
    elif kind == "rows":
        mask = mask.expand(3, 32, 1, 500)
    elif kind == "nothing seen":
        mask = mask & (torch.arange(3, device="cuda") != 1).view(3, 1, 1, 1)
    elif kind == "lowest":
        mask = torch.zeros(3, 1, 1, 500, device="cuda", dtype=torch.bfloat16)
        mask[1] = torch.finfo(torch.bfloat16).min
    check(attend, q, k, v, mask)


def test_what_is_not_seen_is_not_read():
    q, k, v = operands(keys=4096)
    k[:, :, 1000:], v[:, :, 1000:] = math.nan, math.inf
    compiled = thunder.jit(attend)
    with torch.no_grad():
        out = compiled(q, k, v, mask_up_to(1000, 4096))
    wanted = exact(q, k[:, :, :1000], v[:, :, :1000], mask_up_to(1000, 1000))
    assert (out.double() - wanted).abs().max() < 0.02


def test_repeated_heads_are_read_as_they_are():
    def program(q, k, v, mask):
        k, v = (
            t[:, :, None].expand(-1, -1, 4, -1, -1).reshape(t.shape[0], -1, *t.shape[2:]) for t in (k, v)
        )
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    compiled = check(program, *operands(), mask_up_to(300, 700))
    lines = str(thunder.last_traces(compiled)[-1]).splitlines()
    assert not any("reshape" in line for line in lines if not line.lstrip().startswith("#"))


def test_layouts_and_offsets():
    q, k, v = operands(2, keys=256)
    mask = mask_up_to(100, 256, 2)
    inside = k.transpose(1, 2).contiguous().transpose(1, 2)
    check(attend, q, inside, v, mask)
    check(attend, q, k[:, :, 3:], v[:, :, 3:], mask[..., 3:])
    wide = torch.randn(2, 8, 256, 72, device="cuda", dtype=torch.bfloat16)
    check(attend, q, wide[..., 8:], v, mask)
    # What lies at no multiple of 16 bytes is left to PyTorch, on a copy: its kernels read 16 bytes at a time as well.
    check(attend, q, wide[..., 3:67], v, mask)


def test_what_is_left_to_others():
    q, k, v = operands(keys=128)
    mask = mask_up_to(50, 128)
    several = q.expand(-1, -1, 2, -1).contiguous()
    check(attend, several, k, v, mask, by=False)
    heads = (torch.rand(1, 32, 1, 128, device="cuda") < 0.5) | (torch.arange(128, device="cuda") == 0)
    check(attend, q, k, v, heads, by=False)
    compiled = thunder.jit(lambda q, k, v, m: attend(q, k, v, m))
    compiled(q.requires_grad_(), k, v, mask).sum().backward()
    assert not taken(compiled)
    with torch.no_grad(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        compiled = thunder.jit(attend)
        compiled(q, k, v, mask)
    assert not taken(compiled)


def test_the_same_each_time():
    q, k, v = operands(keys=3000)
    mask = mask_up_to(2500, 3000)
    compiled = thunder.jit(attend)
    with torch.no_grad():
        outs = [compiled(q, k, v, mask) for _ in range(10)]
    assert all(torch.equal(outs[0], other) for other in outs)


def test_under_a_mode_pytorch_computes():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    q, k, v = operands(keys=100)
    mask = mask_up_to(60, 100)
    compiled = thunder.jit(attend)
    with torch.no_grad():
        first = compiled(q, k, v, mask)
        with Seen():
            torch.testing.assert_close(compiled(q, k, v, mask), first, rtol=2e-2, atol=2e-2)
