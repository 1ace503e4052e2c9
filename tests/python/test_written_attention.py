"""Attention that is written out: one call of it where kernels take that, results and gradients as eager's."""

import math

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE, ON_CPU, moved

import thunder

HIDDEN = torch.finfo(torch.float32).min


def causal(q, k):
    return torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()


def least(q):
    return torch.tensor(torch.finfo(q.dtype).min, dtype=q.dtype, device=q.device)


def plain(q, k, v, seen):
    return (q @ k.transpose(-2, -1) / 8).softmax(-1) @ v


def scaled_query(q, k, v, seen):
    return torch.matmul(torch.softmax(torch.matmul(q * 0.125, k.mT), dim=-1), v)


def by_einsum(q, k, v, seen):
    weights = torch.einsum("bhid,bhjd->bhij", q, k).mul(0.125).softmax(dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights, v)


def by_bmm(q, k, v, seen):
    b, h, n, d = q.shape
    m = k.shape[2]
    q, k, v = q.reshape(b * h, n, d), k.reshape(b * h, m, d), v.reshape(b * h, m, d)
    scores = torch.baddbmm(q.new_empty(b * h, n, m), q, k.transpose(1, 2), beta=0, alpha=0.125)
    weights = F.softmax(scores.view(b, h, n, m), dim=-1, dtype=torch.float32).to(v.dtype)
    return torch.bmm(weights.view(b * h, n, m), v).view(b, h, n, d)


def masked_fill(q, k, v, seen):
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.shape[-1]))
    scores = scores.masked_fill(seen == 0, float("-inf"))
    y = F.dropout(F.softmax(scores, dim=-1), 0.1, False) @ v
    return y.transpose(1, 2).contiguous().view(y.shape[0], y.shape[2], -1)


def masked_by_a_finite_number(q, k, v, seen):
    return torch.where(seen, (q @ k.mT) / 8, least(q)).softmax(-1) @ v


def known_mask_around_the_scale(q, k, v, seen):
    mask = torch.zeros_like(causal(q, k), dtype=q.dtype).masked_fill(~causal(q, k), torch.finfo(q.dtype).min)
    scores = torch.max((q @ k.mT + mask) * 0.125, least(q))
    return scores.softmax(-1) @ v


def two_masks(q, k, v, seen):
    scores = (q @ k.mT).float() / 8 + torch.full(causal(q, k).shape, float("-inf"), device=q.device).triu(1)
    return torch.where(seen, scores, float("-inf")).softmax(-1).to(v.dtype) @ v


def upcast(q, k, v, seen):
    scores = torch.matmul(q.to(torch.float32), k.to(torch.float32).transpose(-1, -2)) * 0.125
    return torch.matmul(torch.softmax(scores, -1).to(v.dtype), v)


def one_head_for_all(q, k, v, seen):
    return ((q @ k[:, :1].transpose(-2, -1)) / 8).softmax(-1) @ v[:, :1]


def one_matrix(q, k, v, seen):
    return (q[0, 0] @ k[0, 0].t() * 0.125).softmax(-1) @ v[0, 0]


SPELLINGS = [plain, scaled_query, by_einsum, by_bmm, masked_fill, masked_by_a_finite_number,
             known_mask_around_the_scale, two_masks, upcast, one_head_for_all, one_matrix]  # fmt: skip
DTYPES = [torch.float32, torch.bfloat16] if ON_CPU else [torch.bfloat16, torch.float16]

NEAR = {} if ON_CPU else {"rtol": 0.02, "atol": 0.02}  # of DTYPES[0]


def operands(rows=160, columns=160, size=64, dtype=torch.float32, batch=2, heads=3):
    def one(n):
        return torch.randn(batch, n, heads, size).to(dtype).transpose(1, 2)

    seen = torch.rand(batch, 1, rows, columns) > 0.4
    seen[..., 0] = True
    return [moved(t) for t in (one(rows), one(columns), one(columns), seen)]


def results(fn, tensors, seen, dtype=None):
    leaves = [t.detach().to(dtype or t.dtype).requires_grad_() for t in tensors]
    out = fn(*leaves, seen)
    weights = torch.arange(out.numel(), device=out.device).view(out.shape).div(7).cos()
    return [out.detach(), *torch.autograd.grad(out, leaves, weights.to(out.dtype))]


def check(fn, q, k, v, seen, compiled=None, exact_by=None):
    """As near to float64 as eager, within a factor, and with eager's strides."""
    compiled = compiled or thunder.jit(fn)
    exact = results(exact_by or fn, (q, k, v), seen, torch.float64)
    eager = results(fn, (q, k, v), seen)
    for _ in range(2):
        for mine, theirs, want in zip(results(compiled, (q, k, v), seen), eager, exact, strict=True):
            assert mine.dtype == theirs.dtype and mine.shape == theirs.shape and mine.isfinite().all()
            slack = 4 * torch.finfo(mine.dtype).eps * want.norm() + 1e-6
            assert (mine - want).norm() <= 2 * (theirs - want).norm() + slack
    assert compiled(q, k, v, seen).stride() == fn(q, k, v, seen).stride()
    return compiled


def attention(compiled):
    """The call behind the pass; none where the products stayed."""
    texts = [str(t) for t in thunder.last_traces(compiled) if "Known Masks" in str(t).splitlines()[0]]
    lines = [line for line in (texts or [""])[0].splitlines() if "scaled_dot_product_attention(" in line]
    return lines[0].strip() if lines else ""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fn", SPELLINGS)
def test_spellings(fn, dtype):
    compiled = check(fn, *operands(dtype=dtype))
    assert attention(compiled), fn


@pytest.mark.parametrize(
    "rows, columns, size", [(128, 128, 32), (1, 256, 64), (7, 129, 24), (200, 131, 8), (0, 128, 16)]
)
@pytest.mark.parametrize("fn", [plain, by_bmm, masked_by_a_finite_number])
def test_sizes(fn, rows, columns, size):
    compiled = check(fn, *operands(rows, columns, size, DTYPES[0], batch=1))
    assert bool(attention(compiled)) == (rows > 0)


@pytest.mark.parametrize("fn", [plain, masked_fill, upcast])
def test_autocast(fn):
    q, k, v, seen = operands()

    def run(*args):
        with torch.autocast(DEVICE, torch.bfloat16):
            return fn(*args)

    compiled = check(run, q, k, v, seen, exact_by=fn)
    assert attention(compiled)


def returns_weights(q, k, v, seen):
    weights = (q @ k.mT).softmax(-1)
    return weights @ v + weights.sum()


def reads_scores(q, k, v, seen):
    scores = q @ k.mT
    return scores.softmax(-1) @ v * scores.mean()


def drops(q, k, v, seen):
    return F.dropout((q @ k.mT).softmax(-1), 0.0, True) @ v + F.dropout((q @ k.mT).softmax(-1), 1.0, True) @ v


def over_rows(q, k, v, seen):
    return (q @ k.mT).softmax(-2) @ v


def capped(q, k, v, seen):
    return (30 * torch.tanh(q @ k.mT / 30)).softmax(-1) @ v


def any_numbers(q, k, v, seen):
    return (q @ k.mT + seen.to(q.dtype) * HIDDEN).softmax(-1) @ v


def trained_bias(q, k, v, seen):
    return (q @ k.mT + k[:, :1, :1, :1]).softmax(-1) @ v


def detached(q, k, v, seen):
    return (q @ k.mT).softmax(-1).detach() @ v + q + k


@pytest.mark.parametrize("fn", [returns_weights, reads_scores, over_rows, capped, any_numbers, trained_bias, detached])
def test_left_alone(fn):
    q, k, v, seen = operands()
    compiled = check(fn, q * 0.1, k, v, seen)
    assert not attention(compiled)


def test_left_alone_with_dropout():
    q, k, v, seen = operands()
    compiled = thunder.jit(drops)
    compiled(q, k, v, seen)
    text = str([t for t in thunder.last_traces(compiled) if "Known Masks" in str(t).splitlines()[0]][0])
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    assert sum("scaled_dot_product_attention(" in line for line in lines) <= 1
    assert sum("ltorch.dropout(" in line for line in lines) == 1
    assert sum("ltorch.softmax(" in line for line in lines) >= 1


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16])
@pytest.mark.parametrize("of", ["scores", "weights"])
def test_rounding_that_is_meant(of, dtype):
    def rounded(q, k, v, seen):
        scores = q @ k.mT
        if of == "scores":
            scores = scores.to(dtype).to(q.dtype)
        weights = scores.softmax(-1)
        return (weights if of == "scores" else weights.to(dtype).to(q.dtype)) @ v

    q, k, v, seen = (t.detach() for t in operands())
    compiled = thunder.jit(rounded)
    torch.testing.assert_close(compiled(q * 0.1, k, v, seen), rounded(q * 0.1, k, v, seen), rtol=1e-2, atol=1e-3)
    assert not attention(compiled)


def test_left_alone_where_it_is_short():
    compiled = check(plain, *operands(127, 127))
    assert not attention(compiled)


def test_left_alone_with_eagers_numerics():
    q, k, v, seen = operands()
    compiled = thunder.jit(plain, numerics="eager")
    torch.testing.assert_close(compiled(q, k, v, seen), plain(q, k, v, seen))
    assert not attention(compiled)


def test_second_derivatives():
    q, k, v, seen = operands()
    compiled = thunder.jit(plain)
    q.requires_grad_()
    penalties = []
    for fn in (plain, compiled):
        (g,) = torch.autograd.grad(fn(q, k, v, seen).square().sum(), q, create_graph=True)
        penalties.append(torch.autograd.grad(g.square().sum(), q)[0])
    torch.testing.assert_close(penalties[1], penalties[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_see_nothing(dtype):
    """They are the mean of all values, and no gradient reaches the query and the keys through them."""
    q, k, v, seen = operands(dtype=dtype)
    seen[0, :, 3:9] = False
    seen[1] = False
    compiled = check(masked_by_a_finite_number, q, k, v, seen)
    assert attention(compiled)


def masked_by_infinity(q, k, v, seen):
    return torch.where(seen, (q @ k.mT) / 8, -torch.inf).softmax(-1) @ v


def masked_by_what_overflows(q, k, v, seen):
    hidden = torch.tensor(-1e9, device=q.device).half().to(q.dtype)
    return torch.where(seen, (q @ k.mT) / 8, hidden).softmax(-1) @ v


def masked_by_what_a_scale_overflows(q, k, v, seen):
    return ((q / 16 @ k.mT).masked_fill(~seen, torch.finfo(q.dtype).min) / 0.5).softmax(-1) @ v


@pytest.mark.parametrize("fn", [masked_by_infinity, masked_by_what_overflows, masked_by_what_a_scale_overflows])
def test_rows_that_see_nothing_of_infinity(fn):
    """They are not numbers in eager, and zeros here; all others are eager's."""
    q, k, v, seen = operands(dtype=DTYPES[0])
    seen[0, :, 3:9] = False
    compiled = thunder.jit(fn)
    mine, eager = compiled(q, k, v, seen), fn(q, k, v, seen)
    assert attention(compiled)
    assert eager[0, :, 3:9].isnan().all() and not mine[0, :, 3:9].any()
    torch.testing.assert_close(mine[1], eager[1], **NEAR)
    torch.testing.assert_close(mine[0, :, 9:], eager[0, :, 9:], **NEAR)


def padded(q, k, v, seen):
    mask = (1.0 - seen[:, :, :1].to(q.dtype)) * -10000.0
    return (q @ k.mT / 8 + mask).softmax(-1) @ v


def test_padding():
    q, k, v, seen = operands(dtype=torch.bfloat16)
    compiled = check(padded, q, k, v, seen)
    assert attention(compiled)
    seen[1] = False
    check(padded, q, k, v, seen, compiled)
    float32 = check(padded, *operands())  # no number of float32's kernels has that many digits
    assert not attention(float32)


class Buffered(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.hidden = hidden
        self.register_buffer("mask", torch.ones(256, 256).tril().view(1, 1, 256, 256), persistent=False)

    def forward(self, q, k, v):
        rows, columns = q.shape[-2], k.shape[-2]
        scores = q @ k.mT * 0.125
        return scores.masked_fill(self.mask[:, :, :rows, :columns] == 0, self.hidden).softmax(-1) @ v


@pytest.mark.parametrize("hidden", [float("-inf"), -1e9])
def test_buffers_are_known_until_they_are_written(hidden):
    model = Buffered(hidden).to(DEVICE)
    compiled = thunder.jit(model)
    q, k, v, _ = operands(dtype=DTYPES[0])

    def same():
        torch.testing.assert_close(compiled(q, k, v), model(q, k, v), **NEAR)

    same()
    same()
    assert "None, 0.0, True" in attention(compiled) and thunder.cache_misses(compiled) == 1
    with torch.no_grad():
        model.mask.mul_(1)
    same()
    assert thunder.cache_misses(compiled) == 1
    with torch.no_grad():
        model.mask[..., 1].zero_()
    same()
    assert thunder.cache_misses(compiled) == 2 and "True" not in attention(compiled)
    model.mask = torch.ones(1, 1, 256, 256, device=DEVICE).tril()
    same()
    assert thunder.cache_misses(compiled) == 2  # the program for causal masks


def test_buffers_that_change_are_inputs():
    model = Buffered(float("-inf")).to(DEVICE)
    compiled = thunder.jit(model)
    q, k, v, _ = operands(dtype=DTYPES[0])
    for i in range(14):
        with torch.no_grad():
            model.mask[..., 1 + i :, 1 + i] = i % 2
        torch.testing.assert_close(compiled(q, k, v), model(q, k, v), **NEAR)
    misses = thunder.cache_misses(compiled)
    for _ in range(3):
        with torch.no_grad():
            model.mask[..., 5:, 0] = 1
        torch.testing.assert_close(compiled(q, k, v), model(q, k, v), **NEAR)
    assert thunder.cache_misses(compiled) == misses


def test_writes_in_turns_and_without_changes():
    """A write now and then is no change from call to call, and a program that was refused is not asked again."""
    model = Buffered(float("-inf")).to(DEVICE)
    compiled = thunder.jit(model)
    q, k, v, _ = operands(dtype=DTYPES[0])
    for i in range(40):
        if i % 20 == 0:
            with torch.no_grad():
                model.mask.mul_(1)
        if i % 40 == 19:
            model.mask = torch.ones_like(model.mask)
        if i % 40 == 30:
            model.mask = torch.ones_like(model.mask).tril()
        torch.testing.assert_close(compiled(q, k, v), model(q, k, v), **NEAR)
    assert thunder.cache_misses(compiled) == 2


@pytest.mark.skipif(not ON_CPU, reason="memory of NumPy's is the CPU's")
def test_memory_of_an_array_is_not_fixed():
    import numpy as np

    array = np.tril(np.ones((160, 160)))
    mask = torch.from_numpy(array)
    q, k, v, _ = operands()
    for f in (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.from_numpy(array) != 0),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask != 0),
        lambda q, k, v: ((q @ k.mT).masked_fill(mask == 0, float("-inf"))).softmax(-1) @ v,
    ):
        compiled = thunder.jit(f)
        for value in (0, 1):
            array[:, 1] = value
            torch.testing.assert_close(compiled(q, k, v), f(q, k, v))


def test_a_bias_of_symbolic_sizes():
    def biased(q, k, v):
        places = torch.arange(q.shape[-2], device=q.device)
        return (q @ k.mT * 0.25 - (places[:, None] - places).abs().to(q.dtype)).softmax(-1) @ v

    compiled = thunder.jit(biased, cache="symbolic values")
    for n in (130, 160, 200, 160, 130):
        q, k, v, _ = operands(n, n)
        torch.testing.assert_close(compiled(q, k, v), biased(q, k, v), rtol=1e-3, atol=1e-3)
    assert thunder.cache_misses(compiled) <= 2


def test_a_buffer_that_the_program_writes():
    class Counting(Buffered):
        def forward(self, q, k, v):
            out = super().forward(q, k, v)
            self.mask[..., 3:, 1].mul_(0)
            return out

    model, other = Counting(float("-inf")).to(DEVICE), Counting(float("-inf")).to(DEVICE)
    compiled = thunder.jit(model)
    q, k, v, _ = operands(dtype=DTYPES[0])
    for _ in range(4):
        torch.testing.assert_close(compiled(q, k, v), other(q, k, v), **NEAR)


@pytest.mark.parametrize("cache", ["symbolic values", "constant values"])
def test_sizes_that_change(cache):
    model = Buffered(float("-inf")).to(DEVICE)
    compiled = thunder.jit(model, cache=cache)
    for rows in (130, 160, 200, 1, 3, 250):
        q, k, v, _ = operands(rows, max(rows, 128), dtype=DTYPES[0])
        torch.testing.assert_close(compiled(q, k, v), model(q, k, v), **NEAR)
