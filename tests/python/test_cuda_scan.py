"""Scans, on a GPU by kernels of our own: sizes at which other kernels run, against float64, and what others run."""

import pytest
import torch
from devices import DEVICE, ON_CPU
from fusion_checks import ROUNDOFF, check

import thunder

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
# Short rows, rows of several warps and tiles, rows in parts; the same of columns.
SHAPES = [
    ((1,), 0), ((7,), 0), ((3, 0), 1), ((0, 3), 1), ((5, 1), 1), ((65, 3), 1), ((300, 64), -1), ((33, 257), 1),
    ((4, 1000), 1), ((9, 4096), 1), ((2, 50_003), 1), ((1, 200_000), 1),
    ((1, 3), 0), ((4, 100, 64), 1), ((3, 33, 7), 1), ((2, 1000, 2), 1), ((2, 129, 130), -2), ((70_001, 3), 0),
    ((5, 2, 3000), 1), ((3, 4, 5, 6), 1),
]  # fmt: skip
SOME = SHAPES[:8] + SHAPES[12:15] if ON_CPU else SHAPES


def numbers(shape, dtype=torch.float32, low=-1.0, high=1.0, seed=0):
    g = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=g, dtype=torch.float64) * (high - low) + low).to(dtype).to(DEVICE)


def scans(compiled):
    """What scans the final programs have."""
    traces = [thunder.last_traces(compiled), thunder.last_backward_traces(compiled)]
    names = [c.name for t in traces if t for c in t[-1].calls]
    return [n for n in names if n.startswith(("scan_", "torch.cum", "torch.logcum", "torch_cum"))]


def taken(compiled, x, *names):
    """Nothing is asked for the gradient of no elements."""
    names = names if x.numel() else names[:1]
    assert ON_CPU or scans(compiled) == [f"scan_{n}" for n in names], scans(compiled)


def slack(x, dim):
    """Of a sum or product of so many, in another order than eager's."""
    return max(ROUNDOFF[x.dtype], torch.finfo(x.dtype).eps / 8 * x.shape[dim] if x.element_size() > 2 else 0)


def error(got, want):
    return ((got.double() - want).norm() / want.norm().clamp_min(1e-30)).item()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SOME, ids=str)
def test_cumsum(shape, dim, dtype):
    x = numbers(shape, dtype).requires_grad_()
    compiled = check(lambda x: x.cumsum(dim), x, fused=False)
    taken(compiled, x, "cumsum", "reversed_cumsum")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SOME, ids=str)
def test_cumprod(shape, dim, dtype):
    n = max(shape[dim], 1)
    x = numbers(shape, dtype, 1 - 3 / n, 1 + 3 / n).requires_grad_()
    compiled = check(lambda x: x.cumprod(dim), x, fused=False, slack=slack(x, dim))
    taken(compiled, x, "cumprod", "cumprod_backward")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SOME, ids=str)
def test_logcumsumexp(shape, dim, dtype):
    x = numbers(shape, dtype, -4, 4).requires_grad_()
    compiled = check(lambda x: torch.logcumsumexp(x, dim), x, fused=False, slack=slack(x, dim))
    taken(compiled, x, "logcumsumexp", "logcumsumexp_backward")


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(40, 300), (4, 5000), (3, 70, 9)], ids=str)
def test_halves_are_rounded_once(shape, dtype):
    for f, low, high in (
        (lambda x: x.cumsum(1), 0, 1),
        (lambda x: torch.logcumsumexp(x, 1), 0, 1),
        (lambda x: x.cumprod(1), 0.99, 1.01),
    ):
        x = numbers(shape, dtype, low, high)
        got, exact = thunder.jit(f)(x).double(), f(x.double())
        assert ((got - exact).abs() <= (torch.finfo(dtype).eps * 0.51 + 1e-4) * exact.abs() + 1e-6).all()


@pytest.mark.parametrize("zeros", [1, 3])
@pytest.mark.parametrize(("shape", "dim"), [((4, 37), 1), ((3, 2000), 1), ((2, 130, 5), 1)], ids=str)
def test_products_with_zeros(shape, dim, zeros):
    x = numbers(shape, torch.float64, 0.9, 1.1)
    for i in range(zeros):
        x.select(dim, (i * 11 + 5) % shape[dim]).zero_()
    check(lambda x: x.cumprod(dim), x.requires_grad_(), fused=False)
    check(lambda x: x.cumprod(dim), x.detach().float().requires_grad_(), fused=False)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integers(dtype):
    for shape, dim in SOME:
        x = torch.randint(0, 2 if dtype == torch.bool else 100, shape, device=DEVICE).to(dtype)
        compiled = thunder.jit(lambda x, d=dim: (x.cumsum(d), x.cumprod(d)))
        for got, want in zip(compiled(x), (x.cumsum(dim), x.cumprod(dim)), strict=True):
            assert got.dtype == want.dtype == torch.int64
            assert torch.equal(got, want)
        assert ON_CPU or scans(compiled) == ["scan_cumsum", "scan_cumprod"], scans(compiled)


def test_types_of_results():
    x = numbers((5, 300), torch.bfloat16).requires_grad_()
    taken(check(lambda x: x.cumsum(-1, dtype=torch.float32), x, fused=False), x, "cumsum", "reversed_cumsum")
    i = torch.randint(-9, 9, (5, 300), device=DEVICE)
    for dtype, by in ((torch.int32, None), (torch.float32, None), (torch.int64, "cumsum")):
        compiled = thunder.jit(lambda i, t=dtype: i.cumsum(1, dtype=t))
        assert torch.equal(compiled(i), i.cumsum(1, dtype=dtype))
        assert ON_CPU or (scans(compiled) == ["scan_cumsum"]) == (by is not None)
    check(lambda x: x.float().cumsum(-1, dtype=torch.bfloat16), x, fused=False)


def test_layouts():
    for name, make in {
        "turned": lambda: numbers((40, 30)).t(),
        "slices": lambda: numbers((30, 80))[:, ::2],
        "not aligned": lambda: numbers(1201)[1:].view(30, 40),
        "repeated": lambda: numbers((30, 1)).expand(30, 40),
        "images": lambda: numbers((2, 3, 20, 10)).permute(0, 2, 3, 1)[0],
    }.items():
        for dim in (0, 1):
            x = make()
            for scan in (torch.cumsum, torch.logcumsumexp, torch.cumprod):
                got, want = thunder.jit(lambda x, f=scan, d=dim: f(x, d))(x), scan(x, dim)
                torch.testing.assert_close(got, want, msg=name)
                assert got.stride() == want.stride()
            check(lambda x, d=dim: x.sin().cumsum(d), x.requires_grad_(), fused=False)
            check(lambda x, d=dim: torch.logcumsumexp(x, d), x.detach().requires_grad_(), fused=False)
    check(lambda x: x.cumsum(0), numbers(()).requires_grad_(), fused=False)
    check(lambda x: torch.logcumsumexp(x, 0), numbers(()).requires_grad_(), fused=False)
    # A gradient that is one number everywhere.
    x = numbers((30, 40)).requires_grad_()
    compiled = thunder.jit(lambda x: x.cumsum(1))
    got, want = (torch.autograd.grad(y.sum(), x)[0] for y in (compiled(x), x.cumsum(1)))
    torch.testing.assert_close(got, want)


def test_infinities():
    inf, nan = float("inf"), float("nan")
    rows = [[-inf, -inf, 1, -inf, 2], [1, inf, 2, -inf, 3], [1, -inf, 1, 0, -inf], [1, 2, nan, 3, 4]]
    for x in (torch.tensor(rows, device=DEVICE), torch.tensor(rows, device=DEVICE).t().contiguous().unsqueeze(0)):
        results = []
        for f in (thunder.jit(lambda x: torch.logcumsumexp(x, 1)), lambda x: torch.logcumsumexp(x, 1)):
            leaf = x.clone().requires_grad_()
            out = f(leaf)
            results.append([out.detach(), torch.autograd.grad(out, leaf, torch.ones_like(out))[0]])
        for got, want in zip(*results, strict=True):
            torch.testing.assert_close(got, want, equal_nan=True)


def test_varying_lengths():
    compiled = thunder.jit(lambda x: (x * 2).cumsum(1) * x, cache="symbolic values")
    for n in (5, 64, 1, 700, 9000, 33):
        for shape in ((3, n), (2, n, 5)):
            x = numbers(shape)
            torch.testing.assert_close(compiled(x), (x * 2).cumsum(1) * x, rtol=1e-5, atol=1e-3)


def test_gradients_of_gradients():
    def twice(f, x):
        x = x.clone().requires_grad_()
        (g,) = torch.autograd.grad(f(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(g.square().sum(), x)[0]

    x = numbers((4, 30), torch.float64)
    torch.testing.assert_close(twice(thunder.jit(lambda x: x.cumsum(1)), x), twice(lambda x: x.cumsum(1), x))


def test_numerics_of_eager():
    x = numbers((4, 30), torch.bfloat16).requires_grad_()
    compiled = thunder.jit(lambda x: x.cumsum(1), numerics="eager")
    assert torch.equal(compiled(x), x.cumsum(1))


@pytest.mark.gpu
def test_the_same_each_time():
    for shape in ((3, 300_000), (100_000, 5)):
        x = numbers(shape)
        compiled = thunder.jit(lambda x: x.cumsum(0 if x.shape[1] == 5 else 1))
        first = compiled(x)
        assert all(torch.equal(compiled(x), first) for _ in range(10))


@pytest.mark.gpu
def test_in_cuda_graphs():
    x = numbers((64, 300), low=0.9, high=1.1).requires_grad_()

    def program(x):
        return torch.logcumsumexp(x, 1).cumsum(0) * x.cumprod(1)

    compiled = thunder.jit(program, transforms=[thunder.transforms.CUDAGraphTransform()])
    for _ in range(4):
        got, want = compiled(x), program(x)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
        gradients = [torch.autograd.grad(y.sum(), x)[0] for y in (got, want)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(4096, 4096), (64, 1_000_003), (16, 2048, 512)], ids=str)
def test_large(shape):
    x = numbers(shape, torch.bfloat16, 0, 1).requires_grad_()
    compiled = thunder.jit(lambda x: x.cumsum(1))
    out = compiled(x)
    g = numbers(shape, torch.bfloat16, -1, 1, 1)
    (gradient,) = torch.autograd.grad(out, x, g)
    assert error(out, x.detach().double().cumsum(1)) < 3e-3
    assert error(gradient, g.double().flip(1).cumsum(1).flip(1)) < 3e-3
