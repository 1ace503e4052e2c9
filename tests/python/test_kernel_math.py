"""Functions of generated kernels: their errors in units in the last place, and what they give at special points."""

import math

import pytest
import torch
from devices import DEVICE

import thunder
from thunder import prims

pytestmark = [pytest.mark.fuser, pytest.mark.skipif("cuda" in str(DEVICE), reason="the functions of the CPU's kernels")]
# Largest error that is allowed in float32 and float64; values that are usual for the function.
UNARY = {
    "exp": (2.0, 2.0, (-80, 80)),
    "exp2": (2.0, 2.0, (-100, 100)),
    "expm1": (2.6, 2.6, (-5, 5)),
    "tanh": (2.6, 2.6, (-5, 5)),
    "log": (1.5, 1.5, (0, 100)),
    "log1p": (2.6, 2.6, (-1, 10)),
    "sin": (0.6, 1.0, (-100, 100)),
    "cos": (0.6, 1.0, (-100, 100)),
    "tan": (0.6, 2.5, (-100, 100)),
    "atan": (1.5, 1.7, (-20, 20)),
    "sinh": (2.2, 2.5, (-20, 20)),
    "cosh": (1.7, 1.7, (-20, 20)),
    "atanh": (2.6, 2.6, (-1, 1)),
    "erf": (1.6, 1.3, (-6.2, 6.2)),
}
SMALL = [0.0, 1e-40, 1e-310]
LARGE = [88.5, 89.5, 709.5, 745.5, 16777215.0, 16777216.0, 16777218.0, 1e10, 1e22, 3e38, 1e300, math.inf]
USUAL = [0.5, 1.0, 2.0, 3.0, math.pi, math.pi / 2]
SPECIAL = [math.nan] + [sign * x for x in SMALL + USUAL + LARGE for sign in (1, -1)]


def samples(dtype, low, high):
    g = torch.Generator().manual_seed(0)
    usual = torch.rand(20000, generator=g, dtype=torch.float64) * (high - low) + low
    wide = torch.exp2(torch.rand(5000, generator=g, dtype=torch.float64) * 60 - 30) * (torch.arange(5000) % 2 * 2 - 1)
    turns = (torch.arange(2001, dtype=torch.float64) - 1000) * (math.pi / 2)
    return torch.cat([usual, wide, turns]).to(dtype)


def fused(function, *args):
    """In a kernel: one operator alone is PyTorch's."""
    one = torch.ones_like(args[0])
    return thunder.jit(lambda one, x, *rest: function(x * one, *rest))(one, *args)


def exact(name, *args):
    """The function in many digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        others = {"log1p": lambda x: mpmath.log(1 + x), "exp2": lambda x: mpmath.mpf(2) ** x}
        function = others.get(name) or getattr(mpmath, name)
        for values in zip(*(a.tolist() for a in args), strict=True):
            try:
                y = function(*(mpmath.mpf(v) for v in values))
            except (ValueError, ZeroDivisionError):
                y = mpmath.nan
            yield y if isinstance(y, mpmath.mpf) else mpmath.nan


def error(got, want):
    """The largest error in units in the last place, of those that are neither infinite nor undefined."""
    digits, least = (24, -149) if got.dtype == torch.float32 else (53, -1074)
    most = 0.0
    for x, y in zip(got.tolist(), want, strict=True):
        if not math.isfinite(float(y)) or float(y) == 0 or not math.isfinite(x):
            continue
        unit = 2.0 ** max(math.frexp(float(y))[1] - digits, least)
        most = max(most, float(abs(x - y) / unit))
    return most


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_errors(name, dtype):
    *bounds, usual = UNARY[name]
    x = samples(dtype, *usual)[::5]
    got = fused(getattr(torch, name), x.to(DEVICE)).cpu()
    assert error(got, exact(name, x)) <= (bounds[0] if dtype == torch.float32 else bounds[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name, torch_name", [("power", "pow"), ("atan2", "atan2")])
def test_errors_of_two_arguments(name, torch_name, dtype):
    x, y = samples(dtype, -20, 20)[::5], samples(dtype, -19, 23).flip(0)[::5]
    if name == "power":
        x, y = x.abs(), y.clamp(-60, 60)
    got = fused(getattr(torch, torch_name), x.to(DEVICE), y.to(DEVICE)).cpu()
    assert error(got, exact(name, x, y)) <= (1.8 if name == "atan2" else 0.6 if dtype == torch.float32 else 1.3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_normal_distribution(dtype):
    x = torch.cat([samples(dtype, -8, 8), torch.tensor([*SPECIAL, 5.1, -5.1], dtype=dtype)]).to(DEVICE)
    got, want = fused(prims.normal_cdf, x), torch.special.ndtr(x.double())
    assert torch.equal(got.isnan(), want.isnan())
    error = (got - want).abs().nan_to_num()
    assert error.max() <= (1.8e-7 if dtype == torch.float32 else 2e-16)
    # Of what is small next to the error nothing is left, or at most twice as much.
    assert (error[want > 0] <= want[want > 0]).all() and (got.nan_to_num() >= 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_slope_of_gelu(dtype):
    x = torch.cat([samples(dtype, -8, 8), torch.tensor([*SPECIAL, 5.85, -5.85], dtype=dtype)]).to(DEVICE)
    got = fused(prims.gelu_slope, x)
    want = torch.ops.aten.gelu_backward(torch.ones_like(x).double(), x.double())
    assert torch.equal(got.isnan(), torch.ops.aten.gelu_backward(torch.ones_like(x), x).isnan())
    error = (got - want).abs()[~got.isnan()]
    assert error.max() <= (2.1e-7 if dtype == torch.float32 else 4e-16)


def agree(function, *args):
    got, want = fused(function, *args), function(*args)
    same_bits = torch.signbit(got) == torch.signbit(want)
    assert torch.where(want.isnan(), got.isnan(), same_bits).all()
    torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_special_points(name, dtype):
    agree(getattr(torch, name), torch.tensor(SPECIAL, dtype=dtype, device=DEVICE))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("function", [torch.pow, torch.atan2], ids=["pow", "atan2"])
def test_special_points_of_two_arguments(function, dtype):
    points = torch.tensor(SPECIAL, dtype=dtype, device=DEVICE)
    x, y = torch.meshgrid(points, points, indexing="ij")
    agree(function, x.reshape(-1), y.reshape(-1))


@pytest.mark.parametrize("n", [1, 7, 64, 1001])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_one_large_argument_changes_no_other(n, dtype):
    """Arithmetic that fits usual arguments is left for the whole kernel: the others keep their bits."""
    compiled = thunder.jit(lambda x: torch.sin(x) + torch.cos(x * 2))
    x = torch.linspace(-9, 9, n, dtype=torch.float64).to(DEVICE, dtype)
    usual = compiled(x)
    x[n // 2] = 1e9
    large = compiled(x)
    wide = x.float() if dtype == torch.bfloat16 else x
    want = torch.sin(wide) + torch.cos(wide * 2)
    tolerance = {"rtol": 0.02, "atol": 0.02} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(large, want.to(dtype), **tolerance)
    rest = torch.arange(n, device=DEVICE) != n // 2
    assert torch.equal(usual[rest], large[rest])


@pytest.mark.parametrize("shape", [(64, 33), (1, 5), (300, 1)])
@pytest.mark.parametrize("large", [False, True])
def test_large_arguments_in_sums_and_in_memory_that_is_used_again(shape, large):
    def fn(x):
        y = torch.sin(x * 3) * x
        z = torch.cos(y).tanh()
        return y.sum(0), z, torch.tan(z.mean(1)), torch.cos((x * x).sum(0))

    x = torch.randn(shape, dtype=torch.float64, device=DEVICE)
    if large:
        x[-1, -1] = 1e12
    ours, eager = x.clone().requires_grad_(), x.clone().requires_grad_()
    got, want = thunder.jit(fn)(ours), fn(eager)
    torch.testing.assert_close(got, want)
    sum(g.sum() for g in got[:3]).backward()
    sum(w.sum() for w in want[:3]).backward()
    torch.testing.assert_close(ours.grad, eager.grad)


def test_hyperbolic_functions_overflow_where_their_values_do():
    """Eager's are infinite where e^x is."""
    x = torch.tensor([710.3, -710.4, 709.8, 711.0], dtype=torch.float64, device=DEVICE)
    want = [math.sinh(710.3), math.sinh(-710.4), math.sinh(709.8), math.inf]
    torch.testing.assert_close(fused(torch.sinh, x), torch.tensor(want, dtype=torch.float64, device=DEVICE))
    torch.testing.assert_close(fused(torch.cosh, x), torch.tensor(want, dtype=torch.float64, device=DEVICE).abs())
