"""Extremes with their places, elements at computed places, and losses of pairs: in kernels, on a GPU and on the CPU."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE, ON_CPU
from fusion_checks import check, fusions, run
from short_run import taken

import thunder

pytestmark = [
    pytest.mark.filterwarnings("error:.*kernel cannot be compiled:RuntimeWarning"),
    *([] if ON_CPU else [pytest.mark.gpu]),
]

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
SHAPES = [(1, 1), (1, 7), (7, 1), (33, 100), (64, 128), (5, 6, 8), (3, 70, 64)]
SHAPES += [] if ON_CPU else [(4096, 1000), (64, 1024, 128), (5, 40000), (100000, 3)]


def few_values(*shape, dtype=torch.float32, seed=0):
    """Numbers of which many are equal."""
    g = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=g) * 9).round().to(DEVICE, dtype)


def rand(*shape, dtype=torch.float32, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=g) * 0.9 + 0.05).to(DEVICE, dtype)


def places(n, *shape, seed=0, least=0, dtype=torch.int64):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(least, n, shape, generator=g).to(DEVICE, dtype)


def same(f, *args):
    """Results and gradients of what only moves or compares numbers: the same bits."""
    compiled = thunder.jit(f)
    for mine, theirs in zip(run(compiled, args), run(f, args), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert a.dtype == b.dtype and a.stride() == b.stride()
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    return compiled


def grid(*lists):
    """All cases on a GPU, a fifth of them in a short run on the CPU."""
    return [case for case in itertools.product(*lists) if not ON_CPU or taken(str(case), 5)]


# ---- extremes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "name", "dtype"), grid(SHAPES, ["max", "min"], [*DTYPES, torch.int64, torch.uint8, torch.bool]), ids=str
)
def test_extremes_and_their_places(shape, name, dtype):
    x = few_values(*shape, dtype=dtype).requires_grad_(dtype.is_floating_point)
    for dim in range(-1, len(shape) - 1):
        # A factor makes work for a kernel also where one operator would do.
        same(lambda x, d=dim: tuple(getattr(x * 1, name)(d)), x)
        same(lambda x, d=dim: getattr(x * 1, name)(d, keepdim=True)[0], x)
        same(lambda x, d=dim: getattr(x * 1, "arg" + name)(d), x)
    if dtype != torch.bool:  # of all elements
        same(lambda x: getattr(x * 1, "arg" + name)(), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["max", "min"])
def test_of_what_is_no_number_the_first(name, dtype):
    x = few_values(40, 33, dtype=dtype)
    x[3, 7] = x[3, 9] = x[20] = torch.nan
    x[4] = torch.inf
    x[5] = -torch.inf
    x[6, 1], x[6, 2] = -torch.inf, torch.nan
    for dim in (0, 1):
        same(lambda x, d=dim: tuple(getattr(x * 1, name)(d)), x.requires_grad_())
    same(lambda x: getattr(x * 1, "arg" + name)(), x.detach())


def test_the_gradient_goes_to_one_element():
    x = torch.ones(6, 50, device=DEVICE, requires_grad=True)
    thunder.jit(lambda x: (x * 1).max(1)[0])(x).sum().backward()
    want = torch.zeros(6, 50, device=DEVICE)
    want[:, 0] = 1
    assert torch.equal(x.grad, want)


def test_values_alone_take_no_places():
    compiled = thunder.jit(lambda x: x.max(1)[0] + x.min(1)[0])
    compiled(rand(64, 100))
    text = str(thunder.last_traces(compiled)[-1])
    assert len(fusions(compiled)) == 1 and "iota" not in text and "argmax" not in text


def test_one_kernel_finds_values_and_places():
    compiled = thunder.jit(lambda x: x.max(1)[0] + x.min(1)[0])
    x = rand(64, 100).requires_grad_()
    compiled(x).sum().backward()
    assert len(fusions(compiled)) == 2


def test_rows_of_varying_lengths():
    compiled, f = [thunder.jit(lambda x: (x * 2).max(-1)), lambda x: (x * 2).max(-1)]
    for n, m in [(5, 7), (6, 9), (1, 3), (12, 1), (300, 400)]:
        x = few_values(n, m)
        for a, b in zip(compiled(x), f(x), strict=True):
            assert torch.equal(a, b)
    assert thunder.cache_misses(compiled) <= 4


@pytest.mark.parametrize("shape", [(), (1,), (7, 1), (33,), (4, 5)], ids=str)
def test_one_hot(shape):
    compiled = same(lambda i: F.one_hot(i, 12).to(torch.float32) * 3, places(12, *shape))
    assert fusions(compiled)
    same(lambda i: F.one_hot(i), places(12, *shape))
    x = rand(20, 12).requires_grad_()
    check(lambda x: F.one_hot(x.argmax(-1), x.shape[-1]).to(x.dtype) * x, x)


@pytest.mark.skipif(not ON_CPU, reason="a GPU's kernel stops the process's work there")
@pytest.mark.parametrize("wrong", [12, -1, 2**40])
def test_classes_that_there_are_not(wrong):
    compiled = thunder.jit(lambda i: F.one_hot(i, 12) * 2)
    compiled(places(12, 9))
    with pytest.raises(RuntimeError, match="Class values must be"):
        compiled(torch.tensor([1, 2, 3, 4, 5, 6, 7, 8, wrong]))


# ---- elements at computed places -------------------------------------------------------------------------------------

GATHERS = {
    "rows": lambda x, i, j: x[i] * 2,
    "rows by a matrix": lambda x, i, j: x[i.view(5, -1)] * 2,
    "columns": lambda x, i, j: x[:, j] * 2,
    "both": lambda x, i, j: x[i[:, None], j] * 2,
    "pairs": lambda x, i, j: x[i[: len(j)], j] * 2,
    "apart": lambda x, i, j: x.view(x.shape[0], 2, -1)[i[:, None], :, j % 4] * 2,
    "side by side": lambda x, i, j: x.view(2, -1, x.shape[1])[:, i[:, None] // 2, j] * 2,
    "of a slice": lambda x, i, j: x[3:, 1:][i % 4, None] * 2,
    "of a turned one": lambda x, i, j: x.t()[j].t() * 2,
    "of what is computed": lambda x, i, j: x.exp()[i] + 1,
    "index_select": lambda x, i, j: x.index_select(0, i % len(x)).relu(),
    "embedding": lambda x, i, j: F.embedding(i % len(x), x) + 1,
    "gather": lambda x, i, j: x.gather(0, (i % len(x))[:, None].expand(-1, x.shape[1])) * 3,
    "int32": lambda x, i, j: x[i.int(), 0] * 2,
    "a mask": lambda x, i, j: x[x[:, 0] > 0.5] * 2,
}


@pytest.mark.parametrize(("name", "dtype"), grid(GATHERS, DTYPES), ids=str)
def test_gathers(name, dtype):
    for n, m, count in [(40, 16, 25), (16, 8, 5), (30, 24, 100)] + ([] if ON_CPU else [(30000, 64, 10000)]):
        x, i = rand(n, m, dtype=dtype).requires_grad_(), places(n, count, least=-n)
        compiled = check(GATHERS[name], x, i, places(m, min(count, 9), least=-m), fused=False)
        assert name == "a mask" or fusions(compiled)


@pytest.mark.parametrize("name", ["rows", "pairs", "apart"])
def test_gathers_of_varying_sizes(name):
    compiled, f = thunder.jit(GATHERS[name]), GATHERS[name]
    for n, m, count in [(40, 16, 25), (60, 8, 35), (20, 24, 9), (1000, 80, 300)]:
        x, i, j = rand(n, m), places(n, count, least=-n), places(m, 7, least=-m)
        i = i[:7] if name == "pairs" else i
        torch.testing.assert_close(compiled(x, i, j), f(x, i, j))


def test_no_places():
    x = rand(5, 8).requires_grad_()
    check(lambda x, i: x[i] * 2, x, places(5, 0), fused=False)


@pytest.mark.skipif(not ON_CPU, reason="a GPU's kernel stops the process's work there")
@pytest.mark.parametrize("wrong", [40, -41, 2**40])
def test_places_outside(wrong):
    x, i = rand(40, 16), places(40, 9, least=-40)
    compiled = thunder.jit(lambda x, i: x[i] * 2)
    assert torch.equal(compiled(x, i), x[i] * 2)
    i[4] = wrong
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 40"):
        compiled(x, i)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("batch", "heads", "n"), [(70, 3, 5), (64, 6, 7), *([] if ON_CPU else [(512, 6, 49)])])
def test_biases_of_positions(batch, heads, n, dtype):
    def f(x, table):
        steps = torch.arange(n, device=x.device)
        return x + table[(steps[:, None] + steps) % len(table)].permute(2, 0, 1)

    x, table = rand(batch, heads, n, n, dtype=dtype), rand(2 * n + 1, heads, dtype=dtype, seed=1)
    check(f, x.requires_grad_(), table.requires_grad_(), fused=False)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("width", [1, 7, 32])
def test_sums_by_an_index_that_is_expanded(width, dtype):
    x, index = rand(900, width, dtype=dtype).requires_grad_(), places(50, 900)

    def by_scatter(x, index):
        return torch.zeros(50, width, dtype=x.dtype, device=x.device).scatter_add(0, index[:, None].expand_as(x), x * 1)

    def by_index(x, index):
        return torch.zeros(50, width, dtype=torch.float64, device=x.device).index_add(0, index, x.double())

    compiled = thunder.jit(by_scatter)
    (mine,), gradients = run(compiled, (x, index))
    # On a GPU PyTorch, which narrow rows are left to, rounds after each addition.
    rounds = dtype in (torch.bfloat16, torch.float16) and DEVICE != "cpu"
    wide = {"rtol": 30 * torch.finfo(dtype).eps, "atol": 30 * torch.finfo(dtype).eps} if rounds else {}
    torch.testing.assert_close(mine, by_index(x, index).to(dtype), **wide)
    assert torch.equal(gradients[0], run(by_scatter, (x, index))[1][0])


def test_an_index_of_sums_and_of_gathers_is_grouped_once():
    def f(x, index):
        total = torch.zeros(200, x.shape[1], dtype=x.dtype, device=x.device).index_add(0, index, x.exp())
        return x.exp() / total[index]

    x, index = rand(4000, 64).requires_grad_(), places(200, 4000)
    compiled = check(f, x, index, fused=False)
    programs = str(thunder.last_traces(compiled)[-1]) + str(thunder.last_backward_traces(compiled)[-1])
    assert programs.count("rows_group_index(") == 1


# ---- losses and functions --------------------------------------------------------------------------------------------

LOSSES = {
    "kl_div": lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
    "kl_div of logarithms": lambda x, y: F.kl_div(
        x.log_softmax(-1), y.log_softmax(-1), reduction="batchmean", log_target=True
    ),
    "poisson": F.poisson_nll_loss,
    "full poisson": lambda x, y: F.poisson_nll_loss(x, y * 4, full=True, reduction="sum"),
    "poisson of no logarithm": lambda x, y: F.poisson_nll_loss(x, y, log_input=False, reduction="none"),
    "distance": F.pairwise_distance,
    "distance of 1": lambda x, y: F.pairwise_distance(x, y, p=1, keepdim=True),
    "distance of 3": lambda x, y: F.pairwise_distance(x, y, p=3),
    "cosine": lambda x, y: F.cosine_embedding_loss(x, y, (y[:, 0] > 0.5) * 2 - 1, margin=0.3),
    "triplet": lambda x, y: F.triplet_margin_loss(x, y, x * y),
    "triplet that swaps": lambda x, y: F.triplet_margin_loss(x, y, x * y, p=1, swap=True, reduction="none"),
}


# The cosine of two numbers of one sign is 1 but for rounding.
PAIRS = [
    (name, shape)
    for name, shape in itertools.product(LOSSES, [(1, 1), (5, 7), (64, 128), (33, 1000)])
    if (name, shape) != ("cosine", (1, 1))
]


@pytest.mark.parametrize(("pair", "dtype"), grid(PAIRS, DTYPES), ids=str)
def test_losses(pair, dtype):
    name, shape = pair
    x, y = rand(*shape, dtype=dtype).requires_grad_(), rand(*shape, dtype=dtype, seed=1).requires_grad_()
    compiled = check(LOSSES[name], x, y, fused=False)
    if dtype == torch.float32 and shape == (33, 1000):
        for traces in (thunder.last_traces(compiled), thunder.last_backward_traces(compiled)):
            alone = [s for s in str(traces[-1]).splitlines() if "_prim_impl(" in s and "1000]" in s]
            assert not [s for s in alone if not s.strip().startswith("#")]


def test_a_number_of_many_readers_is_no_kernel_of_the_elements():
    def f(x, y, s):
        t = s / 3
        return (x * t).exp() * y, (x.exp() + t) * y

    check(f, rand(64, 1024).requires_grad_(), rand(64, 1024, seed=1).requires_grad_(), rand(1)[0].requires_grad_())


FUNCTIONS = {
    "fmod": lambda x, y: torch.fmod(x, y) * 2,
    "remainder": lambda x, y: torch.remainder(x, y) * 2,
    "floor_divide": lambda x, y: torch.floor_divide(x, y) * 2,
    "sgn": lambda x, y: torch.sgn(x - y) * x,
    "not": lambda x, y: torch.where(~(x > y), x, y) * 2,
    "fmax": lambda x, y: torch.fmax(x, y) * 2,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, dtype):
    for shape in [(1,), (7, 33), (64, 128)]:
        x, y = rand(*shape, dtype=dtype) * 9 - 4, rand(*shape, dtype=dtype, seed=1) - 0.5
        for special in (0.0, -0.0, torch.inf, -torch.inf, torch.nan):
            compiled = thunder.jit(FUNCTIONS[name])
            x[0] = special
            for a, b in ((x, y), (y, x)):
                torch.testing.assert_close(compiled(a, b), FUNCTIONS[name](a, b), equal_nan=True)


SIGNED = [torch.int64, torch.int32, torch.int16, torch.int8]
DIVISIONS = [
    *itertools.product([7, -3, 1, 64, -1, 0], SIGNED),
    *itertools.product([7, 1, 64, 0], [torch.uint8]),
]


@pytest.mark.parametrize(("divisor", "dtype"), DIVISIONS, ids=str)
def test_remainders_of_integers(divisor, dtype):
    x = torch.arange(-120, 120, device=DEVICE).to(dtype)

    def f(x):
        return (x % divisor) * 2, torch.fmod(x, divisor) + 1, (x // divisor) + 1, ~x * 2

    if divisor != 0:
        for a, b in zip(thunder.jit(f)(x), f(x), strict=True):
            assert torch.equal(a, b)
    elif ON_CPU:
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            thunder.jit(f)(x)
