"""A value has the same bits wherever a program computes it: exact comparisons go as in eager.

The backward computes values of the forward again, and two kernels, or two loops of one, may compute the same value.  A
program that compares such a value with itself, or with its own maximum, shows a difference of one bit.
"""

import random

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE
from short_run import ALL, taken, turn
from torch.utils.flop_counter import FlopCounterMode

import thunder

pytestmark = pytest.mark.fuser
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
FUNCTIONS = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "tanh": torch.tanh,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "lgamma": torch.lgamma,
    "sigmoid": torch.sigmoid,
    "rsqrt": torch.rsqrt,
    "pow": lambda x: x.abs() ** 1.7,
    "gelu": F.gelu,
    "silu": F.silu,
    "softplus": F.softplus,
    "mish": F.mish,
    "products": lambda x: x * 1.1 + x * x,
    "quotient": lambda x: x / 3 + 1 / (x * x + 1),
}


def gradient(f, x):
    x = x.detach().clone().requires_grad_()
    f(x).backward()
    return x.grad


def argument(dtype, shape=(64, 63), seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(DEVICE, dtype)


# Only rows: what `acosh` and others give outside of their domain is NaN in both.
@pytest.mark.parametrize("name, dtype", [(name, dtype) for name in FUNCTIONS for dtype in turn(name, DTYPES)], ids=str)
def test_maximum_is_found_again_in_the_backward(name, dtype):
    f = FUNCTIONS[name]
    x = argument(dtype).clamp(1.1, 30) if name == "acosh" else argument(dtype).clamp(-0.95, 0.95).abs() + 0.01
    for dim in (-1, 0):

        def program(x, dim=dim):
            return f(x).amax(dim).float().sum()

        got, want = gradient(thunder.jit(program), x), gradient(program, x)
        assert not got.isnan().any()
        # Neighbours that round to the same number in one of the two share the gradient there.
        assert (got != 0).any(dim).all() and (want != 0).any(dim).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["exp", "tanh", "gelu", "silu", "products", "quotient", "log1p", "pow"])
def test_comparisons_within_the_forward(name, dtype):
    f = FUNCTIONS[name]

    def program(x):
        y = f(x)
        rows, columns = y.amax(-1, keepdim=True), y.amax(0)
        return (y == rows).sum(-1), (columns - y).float().sqrt(), (y >= y.topk(3, -1).values[..., -1:]).sum(-1), y

    x = argument(dtype).abs() if name == "log1p" else argument(dtype)
    found, gaps, top, _ = thunder.jit(program)(x)
    assert (found >= 1).all() and (top >= 3).all()
    assert not gaps.isnan().any() and (gaps == 0).any(0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_masks_by_order_statistics(dtype):
    def topk(x):
        y = x.exp()
        return (y * (y >= y.topk(3, -1).values[..., -1:])).float().sum()

    def median(x):
        y = F.gelu(x)
        return (y * (y == y.median(-1, keepdim=True).values)).float().sum()

    def quantile(x):
        y = torch.tanh(x.float() * 1.3)
        return (y * (y >= torch.quantile(y, 0.9, dim=-1, interpolation="lower", keepdim=True))).sum()

    x = argument(dtype, (16, 33))
    for f in (topk, median, quantile):
        got, want = gradient(thunder.jit(f), x), gradient(f, x)
        assert not got.isnan().any()
        assert ((got != 0).sum(-1) >= (1 if f is median else 3)).all(), f
        if dtype in (torch.float32, torch.float64):
            assert torch.equal(got != 0, want != 0), f


@pytest.mark.parametrize("numerics", ["fused", "eager"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.exp().amax(-1).sum(),
        lambda x: torch.linalg.vector_norm(x * 1.1 + x * x, float("inf"), dim=-1).sum(),
        lambda x: (x.softmax(-1).amax(-1) * torch.arange(64.0, device=x.device)).sum(),
        lambda x: F.gelu(x).amax(0).sum(),
        lambda x: F.layer_norm(x, (63,)).amax(-1).sum(),
        lambda x: (x / x.norm(dim=-1, keepdim=True)).amin(0).sum(),
    ],
)
def test_gradients_of_extremes(f, numerics):
    x = argument(torch.float32)
    got, want = gradient(thunder.jit(f, numerics=numerics), x), gradient(f, x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_difference_of_equal_products():
    a = torch.rand(1000, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    f = thunder.jit(lambda a, b: (a * a - b * b).sqrt() + 0)
    assert not f(a, a.clone()).any()

    def variance(x):
        return ((x * x).mean(-1) - x.mean(-1) * x.mean(-1)).sqrt()

    x = torch.full((7, 64), 1.1, device=DEVICE)
    assert not thunder.jit(variance)(x).isnan().any()


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if taken(name, 2)])
def test_elements_do_not_depend_on_their_place(name):
    """In the vector loop, in its remainder, in a row, in a column, once a row."""
    f = FUNCTIONS[name]
    x = argument(torch.float32, (1000,)).abs() * 2 + 0.01
    whole = thunder.jit(lambda x: f(x * 1.0) + 0.0)(x)
    for start, length in ((1, 1), (3, 7), (5, 31), (0, 33), (17, 64), (900, 100)):
        assert torch.equal(
            thunder.jit(lambda x: f(x * 1.0) + 0.0)(x[start : start + length].clone()).nan_to_num(),
            whole[start : start + length].nan_to_num(),
        )

    def once_a_row(x):
        once = f(x[:, 0] * 1.0) + 0.0
        return once[:, None] * torch.ones(1, 40, device=x.device), (once[:, None] - x).sum(-1)

    rows = x.view(20, 50)
    assert torch.equal(
        thunder.jit(once_a_row)(rows)[0].nan_to_num(), whole.view(20, 50)[:, :1].expand(20, 40).nan_to_num()
    )


def units_in_the_last_place(got, want):
    want = want.double()
    one = torch.nextafter(want.float().abs(), want.new_tensor(torch.inf).float()).double() - want.float().abs().double()
    return ((got.double() - want).abs() / one).nan_to_num(posinf=0)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("products", "quotient", "lgamma", "mish")])
def test_accuracy_of_functions(name):
    """Every 4,999th float, and special numbers, against float64."""
    f = FUNCTIONS[name]
    x = torch.arange(-(2**31), 2**31, 4999, dtype=torch.int64).to(torch.int32).view(torch.float32)
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1, -1, 8, 1000, 1e-45, -1e-45, 3.4e38])
    x = torch.cat([x, special, torch.linspace(-2, 2, 20001), torch.linspace(-90, 90, 20001)]).to(DEVICE)
    got, want, eager = thunder.jit(lambda x: f(x * 1.0) + 0.0)(x), f(x.double()), f(x)
    assert torch.equal(got[x.isfinite()].isnan(), eager[x.isfinite()].isnan())
    assert torch.equal(got[want == 0], eager[want == 0])
    normal = (want.abs() > 1.2e-38) & (want.abs() < 3.4e38)
    worst = units_in_the_last_place(got[normal], want[normal]).max()
    # Compositions add up the errors of their parts, in eager too.
    of_eager = units_in_the_last_place(eager[normal], want[normal]).max()
    assert worst <= max(2.6, 1.5 * of_eager), (worst, of_eager)


STEPS = [
    lambda y, c: y * c,
    lambda y, c: y + c,
    lambda y, c: torch.tanh(y),
    lambda y, c: y.exp().clamp(max=50.0),
    lambda y, c: F.gelu(y),
    lambda y, c: y * torch.sigmoid(y),
    lambda y, c: y / (y.abs() + 1),
    lambda y, c: (y * y + c).sqrt(),
    lambda y, c: y - y.mean(-1, keepdim=True),
    lambda y, c: y.softmax(-1),
    lambda y, c: y * c + y * y,
    lambda y, c: torch.where(y > 0, y, y * 0.1),
    lambda y, c: torch.cat([y[:, 1:], y[:, :1]], -1),
    lambda y, c: F.pad(y, (1, 0))[:, :-1] + y,
    lambda y, c: y.log1p().nan_to_num(0.0) if c > 1 else y.expm1().clamp(max=20.0),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(12 if ALL else 4))
def test_random_programs(seed, dtype):
    """A random chain, computed in several kernels: once to find its extremes, again where it is compared with them."""
    rng = random.Random(seed)
    steps = [(rng.choice(STEPS), rng.uniform(0.5, 1.5)) for _ in range(rng.randint(2, 6))]

    def chain(x):
        for step, c in steps:
            x = step(x, c)
        return x

    def forward(x):
        y = chain(x)
        return (y == y.amax(-1, keepdim=True)).sum(-1), (y.amax(0) - y).float(), (y - y.amin(0)).float()

    def loss(x):
        y = chain(x)
        return (y.amax(-1) + y.amin(-1)).float().sum() + y.amax(0).float().sum()

    x = argument(dtype, (rng.choice([8, 31, 64]), rng.choice([7, 33, 64, 100])), seed)
    found, below, above = thunder.jit(forward)(x)
    assert (found >= 1).all() and (below >= 0).all() and (above >= 0).all()
    got, want = gradient(thunder.jit(loss), x), gradient(loss, x)
    assert torch.equal(got.isnan(), want.isnan())


@pytest.mark.parametrize(
    "name, dtype",
    [(name, dtype) for name in ("tanh", "exp", "erf", "log1p", "sin") for dtype in turn(name, DTYPES)],
    ids=str,
)
def test_a_maximum_is_found_by_a_backward_that_somebody_watches(name, dtype):
    """Its kernels' operators run one by one, and round otherwise than the forward's kernel did."""
    x = torch.rand(64, 63, generator=torch.Generator().manual_seed(1)).to(DEVICE, dtype).requires_grad_()
    y = thunder.jit(lambda x: FUNCTIONS[name](x * 1.5).amax(-1).sum())(x)
    with FlopCounterMode(display=False):
        y.backward()
    assert (x.grad != 0).sum(-1).min() >= 1 and not x.grad.isnan().any()
