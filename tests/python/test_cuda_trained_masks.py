"""Attention on a GPU whose mask requires a gradient (a learned bias of positions): the memory-efficient kernel."""

import functools
import itertools

import pytest
import torch
import torch.nn.functional as F
from attention_checks import check, error, made, names, results
from torch.nn.attention import SDPBackend

import thunder

pytestmark = pytest.mark.gpu

B, H = 3, 4
SHAPES = [(49, 49), (64, 64), (197, 197), (512, 512), (1, 77), (77, 1), (130, 257)]
SIZES = (32, 64, 80, 128)
FORMS = {
    "all heads": lambda t, s: (1, H, t, s),
    "all samples": lambda t, s: (B, 1, t, s),
    "of three dims": lambda t, s: (H, t, s),
    "of two dims": lambda t, s: (t, s),
    "full": lambda t, s: (B, H, t, s),
    "keys": lambda t, s: (B, 1, 1, s),
}
ONES = [(shape, form, SIZES[i % len(SIZES)]) for i, (shape, form) in enumerate(itertools.product(SHAPES, FORMS))]
EFFICIENT = "sdpaex_grad_forward_scaled_dot_product_efficient_attention"
ALL = ("out", "dq", "dk", "dv", "dmask")


def bias_of(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda", dtype=torch.float64).to(dtype).requires_grad_()


def operands(t, s, size, dtype=torch.bfloat16, batch=B):
    return [made(H, n, size, dtype, batch=batch) for n in (t, s, s)]


def attention(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, mask)


def backward_names(compiled):
    return " ".join(c.name for c in thunder.last_backward_traces(compiled)[-1].calls)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(("shape", "form", "size"), ONES, ids=str)
def test_against_float64(shape, form, size, dtype):
    mask = bias_of(*FORMS[form](*shape), dtype=dtype)
    compiled = check(attention, [*operands(*shape, size, dtype), mask], EFFICIENT, results_are=ALL)
    assert "efficient_attention_backward_with_mask" in backward_names(compiled)


@pytest.mark.parametrize("heads_inside", [True, False])
@pytest.mark.parametrize("size", [36, 33])
def test_heads_that_are_padded(size, heads_inside):
    q, k, v = (made(H, 49, size, inside=heads_inside, batch=B) for _ in "qkv")
    check(attention, [q, k, v, bias_of(1, H, 49, 49)], EFFICIENT, eager_by=(SDPBackend.MATH,), results_are=ALL)


@pytest.mark.parametrize("form", ["transposed", "sliced", "expanded", "of a product", "unaligned memory"])
def test_masks_that_are_made(form):
    """Of a parameter whose layout the kernel does not read."""
    t, s = 49, 60
    sources = {
        "transposed": (bias_of(H, s, t), lambda b: b.transpose(-1, -2)),
        "sliced": (bias_of(H, t, s + 5), lambda b: b[..., 5:]),
        "expanded": (bias_of(1, H, t, s), lambda b: b.expand(B, -1, -1, -1)),
        "of a product": (bias_of(H, t, 8), lambda b: b @ b.new_ones(8, s) / 4),
        "unaligned memory": (bias_of(H * t * s + 1), lambda b: b[1:].view(H, t, s)),
    }
    source, make = sources[form]
    fn = lambda q, k, v, b: attention(q, k, v, make(b))
    by = (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
    check(fn, [*operands(t, s, 64), source], EFFICIENT, eager_by=by, results_are=ALL)


def test_a_mask_that_hides_and_learns():
    """Rows that see nothing, too: as eager's, what they give and what flows back through them is zero."""
    hidden = torch.rand(B, 1, 100, 100, device="cuda") > 0.6
    hidden[..., 0] = False
    hidden[1, :, :7] = True

    def fn(q, k, v, bias):
        return attention(q, k, v, bias.masked_fill(hidden, float("-inf")))

    tensors = [*operands(100, 100, 64), bias_of(1, H, 100, 100)]
    compiled = check(fn, tensors, EFFICIENT, results_are=ALL)
    assert (compiled(*tensors)[1, :, :7] == 0).all()


def test_only_the_mask_requires_a_gradient():
    q, k, v = (t.detach() for t in operands(49, 49, 32))
    bias = bias_of(1, H, 49, 49)
    fn = lambda b: attention(*(t.to(b.dtype) for t in (q, k, v)), b)
    # Eager's kernel fails in its own backward here: "LSE is not correctly aligned".
    compiled = check(fn, [bias], EFFICIENT, eager_by=(SDPBackend.MATH,), results_are=("out", "dmask"))
    assert "efficient_attention_backward_with_mask" in backward_names(compiled)


def layers(q, bias, seen, n=4, aligned=False):
    """One bias for several layers, as in T5: chosen by a condition that is expanded to the batch.

    Args:
        aligned: Whether the mask's rows are made such as eager's kernel takes.
    """
    mask = torch.where(seen.expand(q.shape[0], -1, -1, -1), bias.permute(2, 0, 1), torch.finfo(q.dtype).min)
    if aligned:
        mask = F.pad(mask, (0, -mask.shape[-1] % 8)).contiguous()[..., : mask.shape[-1]]
    for _ in range(n):
        q = F.scaled_dot_product_attention(q, q, q, mask, scale=0.5)
    return q


@pytest.mark.parametrize("rows", [64, 300])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["all seen", "causal", "given"])
def test_one_mask_for_several_layers(kind, dtype, rows):
    given = torch.rand(1, 1, rows, rows, device="cuda") > 0.3
    given[..., 0] = True

    def fn(q, bias, aligned=False):
        place = torch.arange(rows, device="cuda")
        seen = {"all seen": place[:, None] >= place * 0, "causal": place[:, None] >= place, "given": given}[kind]
        return layers(q, bias, seen.view(1, 1, rows, rows), aligned=aligned)

    tensors = [made(H, rows, 64, dtype, batch=16), bias_of(rows, rows, H, dtype=dtype)]
    # The keys of this mask do not lie next to each other, so eager computes all layers of it in float32. Its kernel
    # rounds probabilities and their gradients to 16 bits, of which sums over the batch keep few digits if they cancel.
    compiled = check(
        fn,
        tensors,
        EFFICIENT,
        eager_by=(SDPBackend.EFFICIENT_ATTENTION,),
        results_are=("out", "dq", "dbias"),
        eager_fn=functools.partial(fn, aligned=True),
    )
    forward = str(thunder.last_traces(compiled)[-1])
    assert forward.count("prims.where(") == (0 if kind == "all seen" else 1)
    assert names(compiled).count(EFFICIENT) == 4


@pytest.mark.parametrize("p", [0.1, 0.5])
@pytest.mark.parametrize("turned", [False, True])
def test_dropout_draws_eagers_numbers(p, turned):
    """For a mask whose keys do not lie next to each other eager takes no fused kernel, and draws others."""
    bias = bias_of(1, H, 256, 256)
    tensors = [*operands(256, 256, 64), bias]
    cotangent = made(H, 256, 64, batch=B).detach()

    def fn(q, k, v, b):
        b = b.transpose(-1, -2) if turned else b
        return F.scaled_dot_product_attention(F.dropout(q, 0.2), k, v, b, p)

    compiled = thunder.jit(fn)
    for _ in range(2):
        found = []
        for f in (fn, compiled):
            torch.manual_seed(5)
            found.append([*results(f, tensors, cotangent), torch.randn(3, device="cuda")])
        for mine, theirs in zip(found[1][:-1], found[0][:-1], strict=True):
            assert error(mine, theirs.double()) < 0.02
        assert torch.equal(found[0][-1], found[1][-1])
    assert ("efficient_attention_with_dropout" in names(compiled)) != turned


def test_more_samples_than_blocks_are_left_to_products():
    q = torch.randn(65536, 1, 8, 8, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    tensors = [q, bias_of(1, 1, 8, 8)]
    compiled = thunder.jit(lambda q, b: attention(q, q, q, b))
    cotangent = torch.randn_like(q)
    exact = results(
        lambda q, b: attention(q, q, q, b), [t.detach().double().requires_grad_() for t in tensors], cotangent.double()
    )
    for got, want in zip(results(compiled, tensors, cotangent), exact, strict=True):
        assert error(got, want) < 0.02
    assert "efficient" not in names(compiled)


def test_a_recorded_graph():
    tensors = [*operands(49, 49, 32), bias_of(1, H, 49, 49)]
    cotangent = made(H, 49, 32, batch=B).detach()
    recorded = thunder.jit(attention, transforms=[thunder.transforms.CUDAGraphTransform()])
    want = results(thunder.jit(attention), tensors, cotangent)
    for _ in range(4):
        for mine, plain in zip(results(recorded, tensors, cotangent), want, strict=True):
            assert error(mine, plain.double()) < 0.01
