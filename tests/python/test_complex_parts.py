"""Arithmetic of complex numbers in fused kernels: results, gradients, layouts and views as eager's."""

import math

import pytest
import torch

import thunder

# Shapes of an array of pairs, without the pairs: powers of two, odd, 1 and 0.
SHAPES = [(2, 16, 4, 32), (3, 7, 1, 5), (1, 1, 1, 1), (0, 4, 2, 8), (2, 5, 3, 1)]


def kernels(fn):
    traces = [*thunder.last_traces(fn)[-1:], *thunder.last_backward_traces(fn)[-1:]]
    return "\n".join(line for trace in traces for line in str(trace).splitlines() if not line.lstrip().startswith("#"))


def numbers(t):
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def same(mine, wanted, tolerance):
    assert mine.dtype == wanted.dtype and mine.shape == wanted.shape
    torch.testing.assert_close(numbers(mine).double(), numbers(wanted).double(), rtol=tolerance, atol=tolerance,
                               equal_nan=True)


def check(fn, *args, tolerance=2e-6, calls=2):
    """Results and gradients as eager's; the compiled function."""
    compiled = thunder.jit(fn)
    for _ in range(calls):
        results = []
        for run in (fn, compiled):
            inputs = [a.detach().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a for a in args]
            outs = run(*inputs)
            outs = outs if isinstance(outs, tuple) else (outs,)
            grown = [o for o in outs if o.requires_grad]
            leaves = [i for i in inputs if isinstance(i, torch.Tensor) and i.requires_grad]
            ones = [torch.arange(o.numel()).view(o.shape).div(7).cos().to(o.dtype) for o in grown]
            grads = torch.autograd.grad(grown, leaves, ones, allow_unused=True) if grown else ()
            results.append((outs, grads))
        for mine, wanted in zip(results[1][0], results[0][0], strict=True):
            same(mine, wanted, tolerance)
            assert mine.stride() == wanted.stride() or mine.numel() <= 1
        for mine, wanted in zip(results[1][1], results[0][1], strict=True):
            assert (mine is None) == (wanted is None)
            if mine is not None:
                same(mine, wanted, tolerance)
    return compiled


def rotary(x, angles):
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], x.shape[-1] // 2, 2))
    return torch.view_as_real(z * angles.view(1, x.shape[1], 1, x.shape[-1] // 2)).flatten(3).type_as(x)


def angles(positions, pairs, dtype=torch.complex64):
    frequencies = 100.0 ** -(torch.arange(pairs).double() / max(pairs, 1))
    turned = torch.outer(torch.arange(positions).double(), frequencies)
    return torch.polar(torch.ones_like(turned), turned).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", SHAPES)
def test_rotary(shape, dtype):
    x = torch.randn(*shape[:-1], 2 * shape[-1]).to(dtype).requires_grad_()
    compiled = check(rotary, x, angles(shape[1], shape[-1]), tolerance=2e-6 if dtype == torch.float32 else 1e-2)
    if x.numel():
        assert "torch.mul" not in kernels(compiled) and "view_as_complex" not in kernels(compiled)


def test_rotary_without_gradients_and_of_two():
    def both(q, k, freqs):
        return rotary(q, freqs), rotary(k, freqs)

    q, k = torch.randn(2, 6, 4, 16), torch.randn(2, 6, 2, 16)
    compiled = check(both, q, k, angles(6, 8))
    assert "torch.mul" not in kernels(compiled)


def test_double_precision():
    def fn(x, freqs):
        z = torch.view_as_complex(x.to(torch.float64).reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * freqs).flatten(-2).type_as(x)

    check(fn, torch.randn(2, 3, 8).requires_grad_(), angles(3, 4, torch.complex128))


def test_of_polar_and_complex():
    def fn(x, y, turn):
        z = torch.complex(x, y) * torch.polar(torch.ones_like(turn), turn)
        return z.real + z.imag, z.abs()

    parts = [torch.randn(5, 7).requires_grad_() for _ in range(3)]
    assert "torch.complex" not in kernels(check(fn, *parts))


COMPLEX = {
    "product": lambda a, b: a * b,
    "chain": lambda a, b: (a * b + a - 2.5 * b) * (0.5 - 1.5j),
    "quotient": lambda a, b: a / b + 1 / b,
    "quotient by numbers": lambda a, b: a / 3 + b / (1 + 2j),
    "conjugate": lambda a, b: (a.conj() * b).real,
    "modulus": lambda a, b: (a * b).abs(),
    "square of the modulus": lambda a, b: (a - b).real.square() + (a - b).imag.square(),
    "exponential": lambda a, b: torch.exp(a * 0.1) * b,
    "direction": lambda a, b: torch.sgn(a) * b.abs(),
    "angle": lambda a, b: torch.angle(a * b),
    "sum": lambda a, b: (a * b).sum(0),
    "mean of all": lambda a, b: (a * b).mean(),
    "choice": lambda a, b: torch.where(a.real > 0, a * b, b),
    "side by side": lambda a, b: torch.cat((a * b, a - b), -1),
    "turned": lambda a, b: (a * b).transpose(0, 1) * b.mT,
    "parts of it": lambda a, b: (a * b)[1:, ::2] * 2j,
    "with a constant": lambda a, b: a * b + torch.full((3, 1), 1 + 1j),
    "of real numbers": lambda a, b: a.real.to(torch.complex64) * b,
    "flipped": lambda a, b: (a * b).flip(0) + a,
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_functions(name, dtype):
    a, b = (torch.randn(3, 4, dtype=dtype).requires_grad_() for _ in range(2))
    check(COMPLEX[name], a, b, tolerance=2e-5 if dtype == torch.complex64 else 1e-12)


def test_infinite_numbers_and_none():
    values = [0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan]
    z = torch.tensor([complex(x, y) for x in values for y in values])
    a, b = z.repeat_interleave(len(z)), z.repeat(len(z))
    check(lambda a, b: torch.view_as_real(a * b) * 2, a, b)
    check(COMPLEX["conjugate"], a, b)
    # ATen's sums multiply one operand by 1 + 0j, which is no number where a part is infinite.
    # Vectors of ATen's divide by another formula than its scalars do, where a part is infinite.
    finite = torch.isfinite(a.real) & torch.isfinite(a.imag) & torch.isfinite(b.real) & torch.isfinite(b.imag)
    nonzero = finite & (b != 0)
    check(lambda a, b: (a / b) * 1.0, a[nonzero], b[nonzero])


def test_state_space_kernel():
    def kernel(logs, c, length):
        a = -torch.exp(logs.real) + 1j * logs.imag
        steps = torch.arange(length)
        return 2 * torch.einsum("hn,hnl->hl", c, torch.exp(a[..., None] * 0.01 * steps)).real

    logs, c = (torch.randn(4, 6, dtype=torch.complex64).requires_grad_() for _ in range(2))
    check(kernel, logs, c, 33, tolerance=1e-4)


def test_between_fourier_transforms():
    def convolved(x, w):
        return torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(w, n=x.shape[-1]), n=x.shape[-1])

    def phases(x):
        z = torch.fft.rfft(x)
        return torch.fft.irfft(z / (z.abs() + 1e-3), n=x.shape[-1])

    x, w = torch.randn(3, 64).requires_grad_(), torch.randn(16).requires_grad_()
    check(convolved, x, w, tolerance=1e-4)
    check(phases, x, tolerance=1e-4)
    check(lambda x: torch.fft.rfft(x).abs().square().log1p(), x, tolerance=1e-4)


def test_a_single_product_stays():
    a, b = (torch.randn(3, 4, dtype=torch.complex64) for _ in range(2))
    assert "torch.mul" in kernels(check(lambda a, b: a * b, a, b))


def test_a_view_that_is_returned_stays_a_view():
    def fn(a, b):
        z = a * b * 2
        return z, z.real, torch.view_as_real(z)

    a, b = (torch.randn(3, 4, dtype=torch.complex64) for _ in range(2))
    z, real, pairs = thunder.jit(fn)(a, b)
    pairs.fill_(3.0)
    assert (real == 3).all() and (z == 3 + 3j).all()


@pytest.mark.filterwarnings("ignore:Casting complex values to real")  # eager's
def test_results_have_memory_of_their_own():
    def converted(x):
        return x.to(torch.complex64).to(torch.float32)

    def swapped(x, y):
        t = x.to(torch.complex64).to(torch.float32)
        x.copy_(y)
        y.copy_(t)

    x, kept = torch.randn(4), torch.randn(4)
    for fn in (converted, lambda x: torch.complex(x, x).real, lambda x: x.to(torch.complex64).clone().real[1:]):
        kept.copy_(x)
        thunder.jit(fn)(x).fill_(0.0)
        assert torch.equal(x, kept)
    z = torch.randn(3, 4, dtype=torch.complex64)
    before = z.clone()
    thunder.jit(lambda z: z.clone().real[0])(z).fill_(0.0)
    assert torch.equal(z, before)
    pairs = [(torch.zeros(3), torch.ones(3)) for _ in range(2)]
    thunder.jit(swapped)(*pairs[0])
    swapped(*pairs[1])
    assert torch.equal(pairs[0][0], pairs[1][0]) and torch.equal(pairs[0][1], pairs[1][1])


def test_views_of_results_have_their_layout():
    a, b = (torch.randn(3, 4, dtype=torch.complex64) for _ in range(2))
    check(lambda a, b: (a * b * 2).real[0], a, b)
    check(lambda a, b: (a * b * 2).imag.T, a, b)
    check(lambda a, b: torch.view_as_real(a * b * 2)[..., 0].T, a, b)
    check(lambda a, b: torch.view_as_real(a.mT * 2 * b.mT).softmax(-1), a.clone().requires_grad_(), b)


def test_truth_is_that_of_both_parts():
    z, one = torch.tensor([1j, 0j, 1 + 0j]), torch.ones(3, dtype=torch.complex64)
    assert thunder.jit(lambda z, o: (z * o).bool())(z, one).tolist() == [True, False, True]


def test_means_of_lengths_that_change_or_depend_on_values():
    mean = thunder.jit(lambda a, b: (a * b).mean())
    for n in range(5, 12):
        a, b = (torch.randn(n, dtype=torch.complex64) for _ in range(2))
        same(mean(a, b), (a * b).mean(), 1e-5)
    assert thunder.cache_misses(mean) <= 3
    chosen = thunder.jit(lambda a, m: (a[m] * 2).mean())
    same(chosen(a, a.real > 0), (a[a.real > 0] * 2).mean(), 1e-5)


def test_a_view_that_others_read_is_no_copy():
    def fn(z, w, m):
        y = (z * w).abs()
        return y, torch.view_as_real(z).flatten(-2) @ m, torch.fft.fft(z.mT)

    z, w = (torch.randn(3, 4, dtype=torch.complex64) for _ in range(2))
    compiled = check(fn, z, w, torch.randn(8, 5), tolerance=1e-5)
    assert "cat" not in kernels(compiled) and "view_as_complex" not in kernels(compiled)


FUNCTIONS = [
    torch.softmax, torch.log_softmax, torch.cumsum, torch.logsumexp, torch.std, torch.var, torch.norm, torch.amax,
    torch.prod, torch.cumprod, torch.logcumsumexp, torch.sort, torch.median, torch.nn.functional.glu,
    torch.nn.functional.normalize, torch.nn.functional.softmin,
]


@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda f: f.__name__)
def test_functions_of_a_part_with_gradients(fn):
    """Their inner values are read by the backward, and their operand has another layout than eager's."""
    options = {"p": 2} if fn in (torch.norm, torch.nn.functional.normalize) else {}

    def composed(a, w):
        result = fn((a.mT * w * 2).real, **options, dim=-1)
        return result if isinstance(result, torch.Tensor) else result[0]

    a, w = torch.randn(4, 6, dtype=torch.complex64).requires_grad_(), torch.randn(6, 4, dtype=torch.complex64)
    check(composed, a, w, tolerance=2e-4)


def test_layouts_that_are_not_dense():
    a = torch.randn(4, 3, 8, dtype=torch.complex64).permute(2, 0, 1)[::2]
    b = torch.randn(1, 4, 1, dtype=torch.complex64).expand(4, 4, 3)
    check(lambda a, b: (a * b) * 2, a, b)
    check(lambda a, b: b * 2 + (b * b)[0], a, b)


def test_a_buffer_that_is_written():
    def fn(state, x):
        state.mul_(x).add_(1j)
        return (state * x).abs()

    compiled = thunder.jit(fn)
    states = [torch.ones(5, dtype=torch.complex64) for _ in range(2)]
    x = torch.randn(5, dtype=torch.complex64)
    for _ in range(3):
        same(compiled(states[0], x), fn(states[1], x), 1e-5)
        same(states[0], states[1], 1e-5)


def test_lengths_that_change():
    compiled = thunder.jit(rotary)
    for n in (5, 9, 1, 16, 33):
        x = torch.randn(2, n, 4, 16).requires_grad_()
        wanted = rotary(x, angles(n, 8))
        got = compiled(x, angles(n, 8))
        same(got, wanted, 2e-6)
        same(torch.autograd.grad(got.sum(), x)[0], torch.autograd.grad(wanted.sum(), x)[0], 2e-6)
    assert thunder.cache_misses(compiled) <= 3


def test_eager_numerics_keep_the_operators():
    compiled = thunder.jit(rotary, numerics="eager")
    x = torch.randn(2, 5, 4, 16)
    assert torch.equal(compiled(x, angles(5, 8)), rotary(x, angles(5, 8)))
    assert "torch.mul" in kernels(compiled)
