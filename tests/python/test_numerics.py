"""How fused kernels round: `thunder.jit(numerics=...)`."""

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE
from fusion_checks import fusions

import thunder


def chain(a, b):
    return (a * b + a) * b - a / (b.abs() + 1)


def norm(a, b):
    return a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-5) * b


PROGRAMS = {
    "chain": chain,
    "swiglu": lambda a, b: F.silu(a) * b,
    "gelu": lambda a, b: F.gelu(a + b) * a,
    "softmax": lambda a, b: torch.softmax(a * b, -1) * b,
    "norm": norm,
    "float32 inside": lambda a, b: (a.float() * b.float() + 1).to(a.dtype) * b,
}


def inputs(dtype):
    g = torch.Generator().manual_seed(0)
    return [torch.randn(64, 512, generator=g).to(DEVICE, dtype) for _ in range(2)]


def unequal(x, y):
    return (x != y).float().mean().item()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_eager_numerics_are_eagers(name, dtype):
    f, args = PROGRAMS[name], inputs(dtype)
    compiled = thunder.jit(f, numerics="eager")
    # A function of the C library may be a bit off, and then one in some hundred roundings to 16 bits differs.
    assert unequal(compiled(*args), f(*args)) < 0.01
    assert len(fusions(compiled)) == 1


def test_arithmetic_is_equal_bit_for_bit():
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        args = inputs(dtype)
        compiled = thunder.jit(chain, numerics="eager")
        assert torch.equal(compiled(*args), chain(*args)), dtype
        assert fusions(compiled)


def test_fused_numerics_are_nearer_to_the_exact_result():
    args = inputs(torch.bfloat16)
    exact = chain(*[a.double() for a in args])
    errors = [(thunder.jit(chain, numerics=n)(*args).double() - exact).norm().item() for n in ("fused", "eager")]
    assert errors[0] < 0.8 * errors[1]
    assert torch.equal(thunder.jit(chain)(*args), thunder.jit(chain, numerics="fused")(*args))


# Programs that show whether a value was rounded.
SEEN = {
    "to integers": lambda a, b: (a * b * 8).long(),
    "rounded and back": lambda a, b: (a.float() * b.float()).to(a.dtype).float(),
    "quantised": lambda a, b: (a.float() - a.float().half().float()) * b,
    "floor": lambda a, b: (a * b * 8).floor() + b,
    "rounding": lambda a, b: (a * b * 8).round() * b,
    "floor division": lambda a, b: (a * b) // 0.5,
    "remainder": lambda a, b: torch.remainder(a * b, 0.5),
    "compared with a number": lambda a, b: torch.where(a * b > 0.5, a, b),
    "compared": lambda a, b: (a + b == b).long(),
    "moved and compared": lambda a, b: (a * b).t().flip(0) > 0.5,
    "infinite": lambda a, b: (a * 40000).isinf(),
    "next": lambda a, b: torch.nextafter(a * b, b),
    "signs": lambda a, b: (a + b).sign() * b,
    "choice": lambda a, b: (a * b).argmax(-1),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", SEEN)
def test_what_shows_is_rounded(name, dtype):
    f, (a, b) = SEEN[name], inputs(dtype)
    compiled = thunder.jit(f)
    assert torch.equal(compiled(a, b), f(a, b))
    grad = thunder.jit(f)(a.requires_grad_(), b)
    assert torch.equal(grad, f(a, b))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_what_is_written_in_place_is_rounded(dtype):
    """The value of a tensor has a second name there, with readers of its own."""

    def f(a):
        a.sigmoid_()
        return torch.exp(a) == torch.exp(a).amax(0, keepdim=True)

    x = inputs(dtype)[0]
    compiled = thunder.jit(f)
    for made in (x.clone, lambda: x.clone().requires_grad_() * 1):
        a, b = made(), made()
        with torch.no_grad():
            assert torch.equal(compiled(a), f(b))


def test_gradients_and_modules():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.SiLU(), torch.nn.Softplus()).to(DEVICE)
    x = torch.randn(32, 64).to(DEVICE, torch.bfloat16).requires_grad_()
    compiled = thunder.jit(module, numerics="eager")
    (got,) = torch.autograd.grad(compiled(x).sum(), x)
    (want,) = torch.autograd.grad(module(x).sum(), x)
    torch.testing.assert_close(got, want, rtol=2**-7, atol=1e-3)


def test_an_unknown_option():
    with pytest.raises(ValueError, match=r"unknown numerics 'exact'; there are 'fused', 'eager'"):
        thunder.jit(chain, numerics="exact")


SPECIAL = [0.0, -0.0, 1e-39, float("inf"), float("nan")]
DIVISORS = [*SPECIAL, -3e-39, 1e-38, 1e-30, 7e-20, 0.3, -3.0, 1e20, 3e30, -1e38, 3.3e38]
DIVIDENDS = [*SPECIAL, -1e-38, 1e-20, 1.0, -2.7, 5e19, 3e38, float("-inf")]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_divisors_of_rows(dtype):
    """Quotients that are rounded to 16 bits are products with a reciprocal of the row's divisor."""

    def f(x, d):
        return (x.abs() + 1).log().amax(1), x / d

    x = torch.tensor(DIVIDENDS, device=DEVICE).repeat(len(DIVISORS), 7).to(dtype)
    d = torch.tensor(DIVISORS, device=DEVICE)[:, None].to(dtype)
    eager, ours = f(x, d)[1], thunder.jit(f)(x, d)[1]
    if dtype == torch.float32:
        torch.testing.assert_close(ours, eager, rtol=0, atol=0, equal_nan=True)
        return
    exact = x.double() / d.double()
    unit = torch.finfo(dtype).eps
    assert torch.equal(ours.isnan(), eager.isnan()) and torch.equal(ours.isinf(), eager.isinf())
    finite = exact.isfinite() & eager.isfinite()
    # Half a unit in the last place, and what a reciprocal adds; the smallest numbers have fewer digits.
    smallest = max(torch.finfo(dtype).smallest_normal * unit, 2.0**-149)
    assert ((ours.double() - exact).abs()[finite] <= 0.505 * unit * exact.abs()[finite] + smallest).all()
