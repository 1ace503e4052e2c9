"""Masks that depend on no input: what attention is told of them, and that results are eager's."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

import thunder


def causal(n, m):
    return torch.arange(n)[:, None] >= torch.arange(m)


def added(seen, hidden, dtype=torch.float32):
    return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, hidden)


# By the dtype of the operands.
CAUSAL = {
    "booleans": lambda dtype: causal(6, 6),
    "by tril": lambda dtype: torch.ones(6, 6, dtype=torch.bool).tril(),
    "of each batch": lambda dtype: causal(6, 6).expand(2, 1, 6, 6) & (torch.arange(2) >= 0)[:, None, None, None],
    "minus infinity": lambda dtype: added(causal(6, 6), float("-inf"), dtype),
    "the lowest number": lambda dtype: added(causal(6, 6), torch.finfo(dtype).min, dtype),
}
FULL = {
    "all": lambda dtype: torch.ones(6, 6, dtype=torch.bool),
    "zeros": lambda dtype: torch.zeros(6, 6, dtype=dtype),
}
OTHERS = {
    "a window": lambda: causal(6, 6) & (torch.arange(6)[:, None] - torch.arange(6) < 3),
    "strictly causal": lambda: torch.ones(6, 6, dtype=torch.bool).tril(1),
    "one row": lambda: torch.arange(6)[None] < 3,
    "a bias": lambda: added(causal(6, 6), -1.0),
    "one batch's differs": lambda: torch.stack([causal(6, 6), causal(6, 6).flip(1)])[:, None],
    "not a number": lambda: added(causal(6, 6), float("nan")),
}


def attention(make):
    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, make())

    return f


def operands(rows=6, columns=6, dtype=torch.float32):
    shapes = ((2, 3, rows, 8), (2, 3, columns, 8), (2, 3, columns, 8))
    return [torch.randn(s, dtype=dtype, requires_grad=True) for s in shapes]


def compare(f, given, **tolerances):
    """Results and gradients, in two calls."""
    compiled = thunder.jit(f)
    for _ in range(2):
        mine = [t.detach().clone().requires_grad_() for t in given]
        expected = [t.detach().clone().requires_grad_() for t in given]
        actual, eager = compiled(*mine), f(*expected)
        weights = torch.randn_like(eager)
        (actual * weights).sum().backward()
        (eager * weights).sum().backward()
        assert_close(actual, eager, equal_nan=True, **tolerances)
        for a, e in zip(mine, expected, strict=True):
            assert_close(a.grad, e.grad, equal_nan=True, **tolerances)
    return compiled


def attention_of(compiled):
    """The call as it was once masks were known."""
    (text,) = [str(t) for t in thunder.last_traces(compiled) if "Known Masks" in str(t).splitlines()[0]]
    (line,) = [line for line in text.splitlines() if "scaled_dot_product_attention(" in line]
    return line


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", [*CAUSAL, *FULL])
def test_known(kind, dtype):
    make = (CAUSAL | FULL)[kind]
    tolerances = {"rtol": 0.05, "atol": 0.05} if dtype is torch.bfloat16 else {}
    compiled = compare(attention(lambda: make(dtype)), operands(dtype=dtype), **tolerances)
    line = attention_of(compiled)
    assert f"(t0, t1, t2, None, 0.0, {kind in CAUSAL})" in line, line


@pytest.mark.parametrize("kind", OTHERS)
def test_others_stay(kind):
    compiled = compare(attention(OTHERS[kind]), operands())
    assert "True" not in attention_of(compiled) and "(t0, t1, t2, t" in attention_of(compiled)


@pytest.mark.parametrize("rows, columns", [(1, 1), (1, 6), (6, 1), (3, 7), (7, 3), (0, 4), (16, 16), (33, 33)])
def test_sizes(rows, columns):
    compare(attention(lambda: causal(rows, columns)), operands(rows, columns))


def test_a_mask_of_an_input_is_not_known():
    def f(q, k, v, lengths):
        return F.scaled_dot_product_attention(q, k, v, torch.arange(6)[None, None, None] < lengths[:, None, None, None])

    compiled = thunder.jit(f)
    given = operands()
    for lengths in (torch.tensor([6, 6]), torch.tensor([2, 4])):
        assert_close(compiled(*given, lengths), f(*given, lengths))


def test_another_size_has_another_mask():
    def f(q, k, v, n):
        seen = causal(6, 6) if n > 2 else torch.ones(6, 6, dtype=torch.bool)
        return F.scaled_dot_product_attention(q, k, v, seen)

    compiled = thunder.jit(f)
    given = operands()
    for n in (1, 3, 1):
        assert_close(compiled(*given, n), f(*given, n))


def test_a_mask_that_is_returned_is_made():
    def f(q, k, v):
        mask = causal(6, 6)
        return F.scaled_dot_product_attention(q, k, v, mask), mask

    y, mask = thunder.jit(f)(*operands())
    assert torch.equal(mask, causal(6, 6))


def test_grouped_heads_dropout_and_autocast():
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)

    def grouped(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, causal(6, 6), enable_gqa=True)

    assert_close(thunder.jit(grouped)(q, k, v), grouped(q, k, v))

    def expanded(q, k, v):
        k, v = (t.repeat_interleave(2, 1) for t in (k, v))
        return F.scaled_dot_product_attention(q, k, v, causal(6, 6), scale=0.3)

    assert_close(thunder.jit(expanded)(q, k, v), expanded(q, k, v))
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(thunder.jit(grouped)(q, k, v), grouped(q, k, v), rtol=0.05, atol=0.05)

    def dropped(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, causal(6, 6), dropout_p=1.0)

    assert_close(thunder.jit(dropped)(q, q, q), dropped(q, q, q))


def test_eager_numerics_keep_eagers_kernel():
    f = attention(lambda: causal(6, 6))
    given = [t.detach() for t in operands()]
    compiled = thunder.jit(f, numerics="eager")
    assert torch.equal(compiled(*given), f(*given))
    assert "is_causal" not in str(thunder.last_traces(compiled)[-1])


def test_a_simulated_gpu_knows_them():
    class Attention(torch.nn.Module):
        def forward(self, q):
            seen = torch.arange(q.shape[-2], device=q.device)
            return F.scaled_dot_product_attention(q, q, q, seen[:, None] >= seen)

    q = torch.zeros(2, 4, 64, 64, dtype=torch.bfloat16, device="meta", requires_grad=True)
    s = thunder.distributed.simulate(Attention(), (q,), world=1, strategy=None)
    (line,) = [line for line in str(s.traces[0]).splitlines() if "_attention" in line and "=" in line]
    assert ", True, " in line and "arange" not in str(s.traces[0]), s.traces[0]


def distances(n, m, device):
    """Of each column from each row's own, counted from the last."""
    return torch.arange(m, device=device) - (torch.arange(n, device=device) + (m - n))[:, None]


def rows(d):
    return torch.arange(d.shape[0], device=d.device)


def numbers(seen, hidden):
    return torch.zeros(seen.shape, dtype=torch.bfloat16, device=seen.device).masked_fill(~seen, hidden)


# What the mask sees, of distances; the window's sides; keys that there are more than queries.
WINDOWS = {
    "causal": (lambda d: (d <= 0) & (d > -8), (7, 0), 0),
    "both sides": (lambda d: (d <= 3) & (d >= -2), (2, 3), 0),
    "right only": (lambda d: d <= 1, (-1, 1), 0),
    "left only": (lambda d: d >= -5, (5, -1), 0),
    "the diagonal": (lambda d: d == 0, (0, 0), 0),
    "causal, more keys": (lambda d: d <= 0, (-1, 0), 9),
    "window, more keys": (lambda d: (d <= 0) & (d > -8), (7, 0), 9),
    "numbers": (lambda d: numbers((d <= 0) & (d > -8), float("-inf")), (7, 0), 0),
    "the lowest number": (lambda d: numbers((d <= 0) & (d > -8), torch.finfo(torch.bfloat16).min), (7, 0), 0),
    "of each batch and head": (lambda d: ((d <= 0) & (d > -8)).expand(2, 4, *d.shape), (7, 0), 0),
}
NO_WINDOWS = {
    "strictly before": (lambda d: d < 0, 3),
    "a gap": (lambda d: (d <= 0) & (d != -2), 0),
    "blocks": (lambda d: (d <= 0) & (rows(d)[:, None] // 8 == rows(d) // 8), 0),
    "a row that sees nothing": (lambda d: d <= 0, -9),
    "one of a batch": (lambda d: torch.stack([d <= 0, d <= 1])[:, None], 0),
    "a prefix": (lambda d: (d <= 0) | (rows(d) < 4), 0),
}


def simulated(see, more=0, rows=32, heads=4, key_heads=4, size=64, **options):
    class Attention(torch.nn.Module):
        def forward(self, q, k, v):
            mask = see(distances(q.shape[-2], k.shape[-2], q.device))
            return F.scaled_dot_product_attention(q, k, v, mask, **options)

    shapes = ((2, heads, rows, size), *((2, key_heads, rows + more, size),) * 2)
    given = [torch.zeros(s, dtype=torch.bfloat16, device="meta", requires_grad=True) for s in shapes]
    return thunder.distributed.simulate(Attention(), given, world=1, strategy=None).traces


def kernels(trace, word="_attention"):
    return [line.strip() for line in str(trace).splitlines() if word in line and " = " in line]


@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_on_a_gpu(kind):
    see, (left, right), more = WINDOWS[kind]
    forward, backward = simulated(see, more)
    (line,) = kernels(forward)
    assert "windowed_flash_attention" in line and f", {left}, {right}, 32, {32 + more}, 0.0, 0.125)" in line, line
    assert "arange" not in str(forward) and "fusion" not in str(forward), forward
    (line,) = kernels(backward)
    assert f"window_size_left={left}, window_size_right={right}" in line, line


@pytest.mark.parametrize("kind", NO_WINDOWS)
def test_other_masks_on_a_gpu(kind):
    see, more = NO_WINDOWS[kind]
    forward, _ = simulated(see, more)
    (line,) = kernels(forward)
    assert "windowed" not in line and "None" not in line, line


def test_a_window_with_grouped_heads_of_size_256():
    forward, backward = simulated(lambda d: (d <= 0) & (d > -8), key_heads=1, size=256, enable_gqa=True)
    assert "windowed_flash" in kernels(forward)[0] and "windowed_flash" in kernels(backward)[0]
    assert not kernels(forward, "expand") and not kernels(backward, "sum")


def test_a_window_of_expanded_heads_reads_the_small_ones():
    class Attention(torch.nn.Module):
        def forward(self, q, k):
            k = k.repeat_interleave(4, dim=1)
            d = distances(q.shape[-2], k.shape[-2], q.device)
            return F.scaled_dot_product_attention(q, k, k, (d <= 0) & (d > -8))

    given = [torch.zeros(2, h, 32, 64, dtype=torch.bfloat16, device="meta", requires_grad=True) for h in (8, 2)]
    forward, _ = thunder.distributed.simulate(Attention(), given, world=1, strategy=None).traces
    assert "windowed_flash" in kernels(forward)[0]
    assert "[2, 8, 32, 64]" not in "".join(line for line in str(forward).splitlines() if "repeat" in line)
    assert "fusion" not in str(forward), forward


def test_a_window_is_the_attention_that_its_mask_is():
    """The decomposition, which takes over where no kernel does."""
    from thunder import torch as ltorch

    q, k = torch.randn(2, 3, 5, 8, dtype=torch.float64), torch.randn(2, 3, 7, 8, dtype=torch.float64)
    for left, right in ((2, 0), (-1, 1), (3, -1), (0, 0), (-1, -1)):
        d = distances(5, 7, "cpu")
        seen = ((d >= -left) | torch.tensor(left < 0)) & ((d <= right) | torch.tensor(right < 0))
        f = thunder.jit(lambda q, k, a=left, b=right: ltorch.windowed_attention(q, k, k, a, b, scale=0.3))
        assert_close(f(q, k), F.scaled_dot_product_attention(q, k, k, seen, scale=0.3))


@pytest.mark.parametrize("columns", [64, 100])  # for cuDNN in a multiple of 16; rows padded for the efficient kernel
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("trained", [True, False])
def test_a_mask_of_several_layers_is_made_once(columns, dtype, trained):
    class Layers(torch.nn.Module):
        def forward(self, q, mask):
            seen = mask[:, None, None, :].bool().expand(-1, q.shape[1], q.shape[2], -1)
            for _ in range(3):
                q = F.scaled_dot_product_attention(q, q, q, seen)
            return q

    q = torch.zeros(2, 4, columns, 64, dtype=dtype, device="meta", requires_grad=trained)
    mask = torch.ones(2, columns, dtype=torch.long, device="meta")
    forward = thunder.distributed.simulate(Layers(), (q, mask), world=1, strategy=None).traces[0]
    assert str(forward).count("prims.where(") + str(forward).count("= torch_where") == 1, forward
    assert f"[2, 4, {columns}, {columns}]" not in "".join(
        line for line in str(forward).splitlines() if "where" in line or "torch_full" in line
    )
    assert len([c for c in forward.calls if "slice_scatter" in c.name]) <= 1


def test_a_mask_of_several_layers_on_the_cpu():
    def f(q, mask):
        seen = mask[:, None, None, :].expand(-1, 3, 6, -1)
        for _ in range(3):
            q = F.scaled_dot_product_attention(q, q, q, seen)
        return q

    compiled = thunder.jit(f)
    q, mask = torch.randn(2, 3, 6, 8, requires_grad=True), torch.rand(2, 6) > 0.4
    mask[:, 0] = True
    assert_close(compiled(q, mask), f(q, mask))
    mine, eager = (torch.autograd.grad(g(q, mask).square().sum(), q)[0] for g in (compiled, f))
    assert_close(mine, eager)


def test_a_mask_of_symbolic_sizes_is_known_for_those_it_was_made_for():
    """It is made once more for sizes that are new, and the program serves those for which it is the same."""

    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, causal(q.shape[-2], k.shape[-2]))

    compiled = thunder.jit(f, cache="symbolic values")
    for n in (6, 5, 16, 33, 6, 16):
        given = operands(n, n)
        actual, eager = compiled(*given), f(*given)
        assert_close(actual, eager)
        for a, b in zip(torch.autograd.grad(actual.sum(), given), torch.autograd.grad(eager.sum(), given), strict=True):
            assert_close(a, b, atol=1e-5, rtol=1e-5)
    stats = thunder.compile_stats(compiled)
    assert stats["cache_misses"] == 1
    assert stats["not_symbolic"] == ""
    assert "a mask of attention is causal" in stats["guards"]
    assert "arange" not in str(thunder.last_traces(compiled)[-1])


def test_a_mask_that_is_another_one_for_other_sizes_is_compiled_for_anew():
    def f(q, k, v):
        n = q.shape[-2]
        return F.scaled_dot_product_attention(q, k, v, causal(n, n) | (torch.arange(n) + n > 20))

    compiled = thunder.jit(f, cache="symbolic values")
    for n, programs in ((6, 1), (8, 1), (21, 2), (30, 2), (16, 3), (7, 3), (40, 3), (15, 3)):
        given = operands(n, n)
        assert_close(compiled(*given), f(*given))
        assert thunder.compile_stats(compiled)["cache_misses"] == programs, n
    assert "a mask of attention" in thunder.compile_stats(compiled)["last_miss"]
