"""Attention on a GPU: the executors `cudnn` and `sdpa` against float64, over the kernels, layouts and grouped heads."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from attention_checks import check, error, exact_results, made, names, results
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


# ---- masks, windows, dropout -----------------------------------------------------------------------------------------


def distances(rows, columns):
    """Of each column from each row's own, counted from the last."""
    row = torch.arange(rows, device="cuda") + (columns - rows)
    return torch.arange(columns, device="cuda") - row[:, None]


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
@pytest.mark.parametrize(("heads", "kv_heads"), [(8, 8), (8, 2)])
@pytest.mark.parametrize(
    ("rows", "columns", "size"), [(256, 256, 64), (200, 333, 128), (130, 130, 256), (129, 129, 36)]
)
@pytest.mark.parametrize(("left", "right"), [(63, 0), (0, 0), (None, 0), (17, 5), (None, 40)])
def test_windows(left, right, rows, columns, size, heads, kv_heads, inside):
    if rows == columns and (left, right) == (None, 0):
        pytest.skip("causal")

    def fn(q, k, v):
        d = distances(rows, columns)
        seen = (d <= right) if left is None else (d <= right) & (d >= -left)
        return F.scaled_dot_product_attention(q, k, v, seen, enable_gqa=heads != kv_heads)

    tensors = made(heads, rows, size, inside=inside), *(made(kv_heads, columns, size, inside=inside) for _ in "kv")
    check(fn, tensors, "windowed_flash_attention", eager_by=(SDPBackend.MATH,))


KINDS = (
    "padding", "padding, expanded", "padding, all heads", "causal and padding", "any", "of two dims", "one row",
    "minus infinity", "lowest", "bias", "float32",
)  # fmt: skip


def masks(b, h, t, s, dtype=torch.bfloat16):
    """Those that are for cuDNN; each row sees something."""
    lengths = torch.tensor([s, s // 3], device="cuda")[:b, None, None, None]
    seen = torch.arange(s, device="cuda") < lengths
    causal = distances(t, s) <= 0
    lowest, at_least = torch.finfo(dtype).min, torch.arange(s, device="cuda") == 0
    some = torch.rand(b, 1, t, s, device="cuda") > 0.4
    some[..., 0] = True
    numbers = lambda m, hidden: torch.zeros(m.shape, device="cuda", dtype=dtype).masked_fill(~m, hidden)
    return {
        "padding": seen,
        "padding, expanded": seen.expand(b, 1, t, s),
        "padding, all heads": seen.expand(b, h, t, s),
        "causal and padding": (causal & seen) | at_least,
        "any": some,
        "of two dims": some[0, 0],
        "one row": seen[1, 0],
        "minus infinity": numbers(some, float("-inf")),
        "lowest": numbers((causal & seen) | at_least, lowest),
        "bias": torch.randn(1, h, t, s, device="cuda", dtype=dtype),
        "float32": torch.randn(b, 1, 1, s, device="cuda"),
    }


@pytest.mark.parametrize("size", [64, 128, 36])
@pytest.mark.parametrize(("rows", "columns"), [(256, 256), (200, 200), (128, 333), (130, 257)])
@pytest.mark.parametrize("kind", KINDS)
def test_masks_by_cudnn(kind, rows, columns, size):
    mask = masks(2, 8, rows, columns)[kind]
    tensors = made(8, rows, size), made(8, columns, size), made(8, columns, size)
    lower = mask if mask.dtype == torch.bool else mask.double()

    def fn(q, k, v, m=None):
        return F.scaled_dot_product_attention(q, k, v, lower.to(q.dtype) if mask.dtype != torch.bool else mask)

    check(fn, tensors, "cudnnex_grad_forward")


@pytest.mark.parametrize("executors", [["cudnn", "sdpa"], ["sdpa"]], ids=["cudnn", "sdpa"])
def test_rows_that_see_nothing(executors):
    """Their results, and all gradients of what only they read, are zero, as eager's."""
    seen = torch.ones(2, 1, 256, 256, dtype=torch.bool, device="cuda")
    seen[1, :, :100] = False
    tensors = [made(8, 256, 64) for _ in "qkv"]
    fn = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, seen)
    compiled = check(fn, tensors, "grad_forward", executors=executors)
    assert (compiled(*tensors)[1, :, :100] == 0).all()


@pytest.mark.parametrize("length", [64, 192, 320, 704, 256, 640])
def test_very_negative_scores(length):
    """cuDNN's gradients of the query are not numbers for half a block at the end (pytorch#196678)."""
    q, k, v = (made(1, length, 64).detach() * 0.1 for _ in "qkv")
    q[..., 0], k[..., 0] = 1.0, -120 * 8
    seen = torch.rand(2, 1, length, length, device="cuda") > 0.3
    seen[..., 0] = True
    tensors = [t.requires_grad_() for t in (q, k, v)]
    fn = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, seen)
    grads = results(thunder.jit(fn), tensors, torch.randn_like(q))
    assert all(g.isfinite().all() for g in grads)


def test_grouped_heads_with_a_mask():
    seen = torch.rand(2, 1, 256, 256, device="cuda") > 0.3
    seen[..., 0] = True
    tensors = made(8, 256, 64), made(2, 256, 64), made(2, 256, 64)
    fn = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, seen, enable_gqa=True)
    check(fn, tensors, "cudnnex_grad_forward", eager_by=(SDPBackend.MATH,))


@pytest.mark.parametrize(("dtype", "size"), [(torch.bfloat16, 36), (torch.float16, 33), (torch.float32, 33)], ids=str)
@pytest.mark.parametrize("executors", [["cudnn", "sdpa"], ["sdpa"]], ids=["cudnn", "sdpa"])
@pytest.mark.parametrize("causal", [True, False])
def test_sizes_that_are_padded(dtype, size, executors, causal):
    tensors = [made(4, 100, size, dtype) for _ in "qkv"]
    fn = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    check(fn, tensors, "grad_forward", eager_by=(SDPBackend.MATH,), executors=executors)


PROBABILITIES = [0.1, 0.125, 0.5]


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("form", ["plain", "causal", "mask", "bias", "float32"])
def test_dropout_draws_eagers_numbers(p, form):
    """With PyTorch's own choice of a kernel, between other draws."""
    dtype = torch.float32 if form == "float32" else torch.bfloat16
    tensors = [made(8, 256, 64, dtype) for _ in "qkv"]
    seen, bias = torch.rand(2, 1, 1, 256, device="cuda") > 0.3, torch.randn(256, 256, device="cuda").to(dtype)
    mask = {"mask": seen, "bias": bias}
    cotangent = made(8, 256, 64, dtype).detach()

    def fn(q, k, v):
        x = F.dropout(q, 0.2)
        for _ in range(2):
            x = F.scaled_dot_product_attention(x, k, v, mask.get(form), p, form == "causal")
        return F.dropout(x, 0.2)

    compiled = thunder.jit(fn)
    for _ in range(2):
        found = []
        for f in (fn, compiled):
            torch.manual_seed(5)
            found.append([*results(f, tensors, cotangent), torch.randn(3, device="cuda")])
        # Eager's gradients by cuDNN are wrong where another call has made a plan for a gradient of another layout.
        compared = range(4) if form == "float32" else range(1)
        for i in compared:
            assert error(found[1][i], found[0][i].double()) < (1e-4 if form == "float32" else 0.02)
    assert "with_dropout" in names(compiled)
    assert torch.equal(found[0][-1], found[1][-1])  # as many numbers were drawn


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize(("executors", "before"), [(None, ""), (None, "eager"), (["cudnn"], "eager"), (["sdpa"], "")])
def test_backward_drops_what_the_forward_dropped(p, inside, executors, before):
    """For fixed numbers the result is linear in the value: g . out is the value's gradient . value."""
    tensors = [made(8, 256, 64, inside=inside) for _ in "qkv"]
    layouts = torch.preserve_format, torch.contiguous_format
    fn = lambda q, k, v: F.scaled_dot_product_attention(F.dropout(q, 0.2), k, v, dropout_p=p)
    for layout in layouts if before == "eager" else ():  # plans of PyTorch's for any layout of the gradient
        out = fn(*tensors)
        torch.autograd.grad(out, tensors, out.detach().clone(memory_format=layout))
    compiled = thunder.jit(fn, executors=executors)
    for layout in layouts:
        torch.manual_seed(5)
        out = compiled(*tensors).detach()
        torch.manual_seed(5)
        again, _, _, dv = results(compiled, tensors, out.clone(memory_format=layout))
        assert torch.equal(again, out)
        direct, through = out.double().square().sum(), (dv.double() * tensors[2].detach().double()).sum()
        assert abs(direct - through) < 0.02 * direct


@pytest.mark.parametrize("rng", ["eager", "fused"])
@pytest.mark.parametrize("window", [True, False])
def test_dropout_by_a_seed(rng, window):
    values = torch.ones(4, 8, 512, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    query = torch.zeros_like(values).detach()

    def fn(q, v):
        mask = distances(512, 512).abs() < 64 if window else None
        return F.scaled_dot_product_attention(q, q, v, mask, 0.25)

    compiled = thunder.jit(fn, rng=rng)
    outs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outs.append(compiled(query, values))
    assert "with_dropout" in names(compiled)
    assert torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])
    assert not torch.equal(compiled(query, values), outs[2])
    assert abs(outs[0].float().mean().item() - 1) < 0.01
    # The backward drops the same weights.
    (g,) = torch.autograd.grad(outs[0][..., 0].float().sum(), values)
    torch.testing.assert_close(g[..., 0].float().sum(), outs[0][..., 0].float().sum(), rtol=0.01, atol=0)


def test_dropout_in_a_recorded_graph():
    tensors = [made(8, 256, 64) for _ in "qkv"]
    fn = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
    compiled = thunder.jit(fn, transforms=[thunder.transforms.CUDAGraphTransform()])
    seen = []
    for _ in range(6):
        out = compiled(*tensors)
        seen.append([out.detach(), *torch.autograd.grad(out.sum(), tensors)])
    assert not torch.equal(seen[-1][0], seen[-2][0])
    assert all(t.isfinite().all() for t in seen[-1])


@pytest.mark.parametrize("kind", ["causal", "queries", "keys", "both", "bias"])
@pytest.mark.parametrize("heads, kv_heads", [(8, 8), (8, 2), (4, 1)])
def test_one_program_for_all_lengths(kind, heads, kv_heads):
    """cuDNN takes no single query or key: they are the executor's own."""
    dtype, size = torch.bfloat16, 64

    def made(*shape):
        return (torch.randn(shape, device="cuda", dtype=torch.float64) / 8).to(dtype).requires_grad_()

    def fn(x, y, w, bias):
        q, k, v = (
            (of @ part).unflatten(-1, (-1, size)).transpose(1, 2)
            for of, part in zip((x, y, y), w.split([heads * size, kv_heads * size, kv_heads * size], 1), strict=True)
        )
        if bias is not None:
            bias = bias[..., : q.shape[2], : k.shape[2]]
        out = F.scaled_dot_product_attention(q, k, v, bias, is_causal=kind == "causal", enable_gqa=heads != kv_heads)
        return out.transpose(1, 2).flatten(2) * 2

    w = made(96, (heads + 2 * kv_heads) * size)
    bias = made(1, heads, 80, 80).detach() if kind == "bias" else None
    compiled = thunder.jit(fn)
    for length in (40, 72, 1, 8, 1, 33):
        x, y = made(2, 24 if kind == "keys" else length, 96), made(2, 24 if kind == "queries" else length, 96)
        cotangent = made(2, x.shape[1], heads * size).detach()
        exact = exact_results(lambda *t: fn(*t, None if bias is None else bias.double()), (x, y, w), cotangent)
        with sdpa_kernel(SDPBackend.MATH):
            eager = results(lambda *t: fn(*t, bias), (x, y, w), cotangent)
        ours = results(lambda *t: compiled(*t, bias), (x, y, w), cotangent)
        least = 1e-3 * max(want.norm().item() for want in exact)  # a single key has no gradient
        for name, mine, theirs, want in zip(("out", "dx", "dy", "dw"), ours, eager, exact, strict=True):
            assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
            allowed = 2 * error(theirs, want, least) + torch.finfo(dtype).eps
            assert error(mine, want, least) <= allowed, (length, name)
    assert thunder.cache_misses(compiled) == 2, thunder.explain_miss(compiled)
    assert any("cudnn" in c.name for c in thunder.last_traces(compiled)[-1].calls)
