"""The embedded fuser on the CPU against eager, by eager's own error in float64, and what happens to its compiler."""

import contextlib
import os
import subprocess
import sys
import textwrap
import time

import litgpt_import
import pytest
import torch
import torch.nn.functional as F
from fusion_checks import check, flat, fusions
from fusion_programs import randn

import thunder
from thunder import _C

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@contextlib.contextmanager
def threads(n):
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---- programs ------------------------------------------------------------------------------------------------------


def pointwise(x, y):
    z = torch.sin(x) * y + torch.exp(-x * x)
    return torch.where(z > 0, torch.tanh(z), z / (1 + y.abs())), (z.clamp(-0.5, 0.75) - x.sigmoid()).relu()


def rms_norm(x, w):
    wide = x if x.dtype == torch.float64 else x.float()
    return x * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5).to(x.dtype) * w


def layer_norm(x, w):
    return F.layer_norm(x + 1, (x.shape[-1],), w, w * 0.5)


def residual_norm(x, w):
    h = x + F.silu(x)
    return h, rms_norm(h, w)


def softmax(x, w):
    return F.softmax(x * w, -1), F.log_softmax(x, 0)


def rope(x, w):
    n, size = x.shape
    half = size // 2
    angle = torch.arange(n, dtype=x.dtype)[:, None] * w.detach()[None, :half]
    cos, sin = torch.cat([angle.cos()] * 2, -1).to(x.dtype), torch.cat([angle.sin()] * 2, -1).to(x.dtype)
    rotated = torch.cat([-x[:, half:], x[:, :half]], -1)
    return x * cos + rotated * sin


def swiglu(x, w):
    gate, up = (x * w).chunk(2, -1)
    return F.silu(gate) * up


def geglu(x, w):
    return F.gelu(x, approximate="tanh") * w + F.gelu(x * w)


ROWS = {f.__name__: f for f in (rms_norm, layer_norm, residual_norm, softmax, rope, swiglu, geglu)}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 2])
def test_pointwise_chain(dtype, n):
    with threads(n):
        check(pointwise, randn(37, 1001, dtype=dtype), randn(37, 1001, dtype=dtype, seed=1))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, dtype):
    check(ROWS[name], randn(48, 64, dtype=dtype), randn(64, dtype=dtype, seed=1))


@pytest.mark.parametrize("name", ["rms_norm", "softmax"])
def test_rows_on_two_threads(name):
    with threads(2):
        check(ROWS[name], randn(700, 130), randn(130, seed=1))


def test_very_long_row():
    check(lambda x: F.softmax(x * 2, -1), randn(1, 100_003))
    check(lambda x: F.softmax(x * 2, -1), randn(3, 100_003).double())

    def weighted(x):
        p = F.softmax(x * 2, -1)
        return p, (p * x).sum(-1), p * p

    check(weighted, randn(2, 70_001))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(dtype, reduction):
    target = torch.randint(0, 50, (30,), generator=torch.Generator().manual_seed(0))
    target[3] = -100
    check(lambda x, t: F.cross_entropy(x * 3, t, reduction=reduction), randn(30, 50, dtype=dtype), target)


@pytest.mark.parametrize("bad", [50, -1, 1 << 40])
@pytest.mark.parametrize("n", [1, 2])
def test_target_out_of_range(bad, n):
    f = thunder.jit(lambda x, t: F.cross_entropy(x * 2, t))
    x, target = randn(3000, 50), torch.zeros(3000, dtype=torch.int64)
    with threads(n):
        good = f(x, target)
        target[2999] = bad
        with pytest.raises(IndexError, match="out of range|out of bounds"):
            f(x, target)
        target[2999] = 0
        torch.testing.assert_close(f(x, target), good)


def test_dtypes_mixed():
    def f(a, b, c):
        s = a + b
        return s.to(torch.bfloat16) * 2, (s * c).sum(-1), (a.double() / (c.abs() + 1)).to(torch.float16)

    check(f, randn(8, 12), randn(8, 12, dtype=torch.float64, seed=1), randn(8, 12, dtype=torch.float16, seed=2))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_integers(dtype):
    info = torch.iinfo(dtype)
    g = torch.Generator().manual_seed(0)
    a = torch.randint(info.min, info.max, (5, 40), generator=g, dtype=dtype)
    b = torch.randint(max(info.min, -9), 9, (5, 40), generator=g, dtype=dtype)
    a[0, 0], a[0, 1] = info.min, info.max

    def f(a, b):
        c = a * b + a - b
        bits = torch.maximum(a, b) ^ 3, (a & b).sum(-1)
        return c, (a + 1) > a, -a, a.abs(), *bits, c.amax(-1), c.amin(), a.to(torch.float32) * 2, c != b

    check(f, a, b)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64], ids=str)
def test_shifts_and_powers_of_integers(dtype):
    a = torch.arange(-6 if dtype != torch.uint8 else 0, 60, dtype=dtype)
    n = (torch.arange(len(a)) % 70).to(dtype)
    check(lambda a, n: ((a << n) + 1, (a >> n) + 1, a**3 + 1, a ** (n % 5).abs() + 1), a, n)


def test_booleans():
    a, b = torch.arange(24).reshape(4, 6) % 2 == 0, torch.arange(24).reshape(4, 6) % 3 == 0

    def f(a, b):
        c = a & ~b
        chosen = torch.where(c, 2.5, b.float())
        return c | b, a ^ b, c.any(-1), (a | b).all(0), c.sum(), (a + b) * b, chosen, torch.amax(c, -1)

    check(f, a, b)


def least_time(f, *arguments):
    """Of some calls."""
    times = []
    for _ in range(40):
        start = time.perf_counter()
        f(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("chosen", [lambda x, m: torch.where(m, x * 2, 0), lambda x, m: (x * m).sum() / m.sum()])
def test_choices_by_truth_values_are_vectorised(chosen):
    # A branch for each element takes some thirty times as long, of random values.
    x, m = randn(1 << 17), torch.rand(1 << 17) > 0.6
    plain = least_time(thunder.jit(lambda x, y: x * y + y), x, x)
    compiled = thunder.jit(chosen)
    # Another process may take the threads' cores for as long as one measurement lasts.
    assert any(least_time(compiled, x, m) < 8 * plain for _ in range(20))


def test_large_choices_alone_are_kernels():
    # PyTorch's operator takes a branch for each element.
    for n, kernels in ((300, 1), (30, 0)):
        x, m = randn(n, 257).detach(), torch.rand(n, 257) > 0.6
        for f in (lambda x, m: torch.where(m, x, 0.5), lambda x, m: x.masked_fill(m, 0.5)):
            compiled = thunder.jit(f)
            assert torch.equal(compiled(x, m), f(x, m))
            assert len(fusions(compiled)) == kernels


def test_special_numbers():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([0.0, -0.0, inf, -inf, nan, 1e-40, -1e38, 3.5, 2.5, -2.5])
    # Which of two zeros is the larger, eager leaves open.
    y = torch.tensor([-1.0, 1.0, nan, inf, 1.0, -1e-40, 1e38, 0.5, nan, -0.5])

    def f(x, y):
        a = x * 1.0
        return (
            torch.maximum(a, y), torch.minimum(a, y), a + -0.0, torch.copysign(y, a), a.sign(), a.round(),
            torch.signbit(a), a.isnan(), a.isinf(), torch.where(a > 0, a, -inf), torch.where(a > 0, nan, y),
            a.amax(), a[:4].amin(), a.clamp(min=-1), a.relu(), (a > 0) == (y > 0), a.abs(), a * 1e300,
        )  # fmt: skip

    compiled = thunder.jit(f)
    for got, want in zip(compiled(x, y), f(x, y), strict=True):
        torch.testing.assert_close(got, want, equal_nan=True, rtol=0, atol=0)
        if want.is_floating_point():
            assert torch.equal(torch.signbit(got)[~want.isnan()], torch.signbit(want)[~want.isnan()])
    assert fusions(compiled)


def test_numbers_become_integers():
    x = torch.tensor([1.7, -1.7, 0.0, 100.9, -128.0, 127.5])

    def f(x):
        return (x * 1).to(torch.int8), (x + 1).long(), (x * 1).int(), (x - 1).bool(), (x.abs() * 1).to(torch.uint8)

    check(f, x)


# ---- shapes and layouts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3, 1, 5), (1, 7), (2, 3, 4, 5)], ids=str)
def test_shapes(shape):
    check(lambda x: (x * 2 + x.sin(), (x * x).sum(), (x.exp() + 1).mean(-1) if x.dim() else x.exp() + 1), randn(*shape))


def test_empty():
    check(lambda x: (x * 2 + 1, torch.cat([x, x + 1]) * 2), torch.zeros(0, 3), fused=False)
    check(lambda x, y: torch.cat([x, y, x]) * 2 + 1, torch.zeros(0, 3), randn(2, 3), fused=False)


def test_broadcasting():
    check(lambda a, b, c: (a * b + c).exp() / (1 + a), randn(4, 1, 6), randn(5, 1), randn(6))


def test_transposed():
    check(lambda x: ((x.t() * 2).exp(), (x.t() + 1).sum(0), x.t().contiguous() + 1), randn(6, 9))
    check(lambda x: (x * 2 + 1, (x.permute(2, 0, 1) * 3).sin()), randn(4, 5, 6).transpose(0, 2))


def test_inputs_with_gaps():
    x = randn(12, 20, grad=False)
    check(lambda a: (a * 2 + 1).sin(), x[::2, 3:11].requires_grad_())
    check(lambda a: F.softmax(a * 2, -1), randn(5, grad=False).expand(4, 5))
    check(lambda a: (a * 2).cos() + a, x.t()[1:].requires_grad_())


def test_pads_slices_and_flips():
    check(lambda x: F.pad(x * 2, (1, 2, -1, 3), value=0.5) + 1, randn(5, 6))
    check(lambda x: torch.cat([x[1:] * 2, x[:1].flip(1)], 0).roll(1, 0).sin(), randn(5, 6))
    check(lambda x: torch.stack([x, x * 2], 1).flatten(1)[:, ::3] + 1, randn(5, 6))


def test_gathers():
    i = torch.tensor([3, 0, 3, 2])
    check(lambda x, i: (x[i] * 2, torch.gather(x, 1, i[None]).exp() + 1, F.embedding(i, x) + x[i]), randn(4, 4), i)


@pytest.mark.parametrize("shape", [(300, 40), (7, 33, 40)], ids=str)
def test_column_sums(shape):
    with threads(2):
        check(lambda x, w: ((x * w).sum(tuple(range(len(shape) - 1))), (x + w).exp()), randn(*shape), randn(40))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(64, 32), (7, 5), (3, 1), (600, 33)], ids=str)
def test_column_sums_that_meet_what_is_gathered(shape, dtype):
    i = torch.randint(-3, 11, shape[1:])
    with threads(2):
        x, t = randn(*shape, dtype=dtype), randn(11, dtype=dtype)
        check(lambda x, t, i: (x.exp().sum(0) * t[i], x.exp() + 1), x, t, i)


def test_place_out_of_range_beside_a_column_sum():
    compiled = thunder.jit(lambda x, t, i: x.exp().sum(0) * t[i])
    x, t = randn(7, 5), randn(11)
    with pytest.raises(IndexError):
        compiled(x, t, torch.tensor([0, 1, 11, 2, 3]))


@pytest.mark.parametrize("grad", [False, True])
def test_what_only_lends_its_sizes(grad):
    check(lambda x: torch.full_like(x.exp(), 3.0) * x.shape[0], torch.randn(3, 4, requires_grad=grad), fused=False)


def test_gradients_that_are_not_contiguous():
    compiled = thunder.jit(lambda x: (x * 2).sin() + x)
    x, y = randn(6, 8), randn(6, 8)
    for g in (randn(8, 6, grad=False).t(), torch.ones(()).expand(6, 8), randn(12, 8, grad=False)[::2]):
        (got,) = torch.autograd.grad(compiled(x), x, g)
        (want,) = torch.autograd.grad((y * 2).sin() + y, y, g)
        torch.testing.assert_close(got, want)


# ---- aliases -------------------------------------------------------------------------------------------------------


def test_outputs_that_alias():
    def f(x):
        y = x * 2 + 1
        return y, y, y[1:], y.t(), x, x[0]

    compiled = check(f, randn(4, 6))
    x = randn(4, 6, grad=False)
    y, same, part, turned, given, row = compiled(x)
    y.zero_()
    assert not same.any() and not part.any() and not turned.any()
    assert given.data_ptr() == x.data_ptr() and row.data_ptr() == x.data_ptr()


def test_written_inputs():
    def f(x, y):
        z = x * 2 + y
        x.add_(z)
        y[1:].mul_(x[1:] + 1)
        return z + x

    x, y = randn(4, 6, grad=False), randn(4, 6, grad=False, seed=1)
    a, b = x.clone(), y.clone()
    torch.testing.assert_close(thunder.jit(f)(x, y), f(a, b))
    torch.testing.assert_close((x, y), (a, b))


def test_inputs_that_overlap():
    x = randn(64, grad=False)
    check(lambda a, b: (a * b + a, (a - b).sum()), x[:40], x[20:60])


# ---- what one sees -------------------------------------------------------------------------------------------------


def test_last_kernels():
    f = thunder.jit(lambda x: (x * 2 + 1).sin())
    f(randn(100))
    text = thunder.last_kernels(f)
    (line,) = [line for line in fusions(f) if "sin" not in line][:1]
    assert line.split(" = ")[1].split("(")[0] in text and "sin" in text


def test_equal_kernels_are_generated_once():
    f = thunder.jit(lambda x, w: torch.mm(torch.mm(x, w).relu() + 1, w).relu() + 1)
    f(randn(8, 8, grad=False), randn(8, 8, grad=False))
    assert len(fusions(f)) == 2
    assert thunder.last_kernels(f).count('extern "C"') == 1


@pytest.mark.parametrize("f", [pointwise, layer_norm])
def test_printed_program_runs(f):
    x, y = randn(6, 16, grad=False), randn(*((6, 16) if f is pointwise else (16,)), grad=False, seed=1)
    compiled = thunder.jit(f)
    want = compiled(x, y)
    trace = thunder.last_traces(compiled)[-1]
    assert " = fusion" in str(trace)
    got = trace.python_callable()(x, y)
    torch.testing.assert_close(flat(got), flat(want))
    assert str(thunder.parse(str(trace), trace.python_ctx())) == str(trace)


# ---- compilers and caches ------------------------------------------------------------------------------------------

PROGRAM = """
    import sys, warnings
    import torch, thunder
    torch.set_num_threads(1)
    x = torch.linspace(-2, 2, 600).reshape(20, 30).requires_grad_()
    f = lambda x: torch.softmax(x * 2, -1).sin() + x.sum(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = thunder.jit(f)
        for _ in range(3):
            y = compiled(x)
            g, = torch.autograd.grad(y.pow(2).sum(), x)
    want = f(x)
    torch.testing.assert_close(y, want)
    torch.testing.assert_close(g, torch.autograd.grad(want.pow(2).sum(), x)[0], rtol=1e-4, atol=1e-4)
    print("fusion" in str(thunder.last_traces(compiled)[-1]), [str(w.message) for w in caught])
"""


def start(program, **environment):
    env = {**os.environ, **environment}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err[-3000:]
    return out + err


def test_without_a_compiler(tmp_path):
    out = finish(start(PROGRAM, CXX="/nonexistent", PATH="", THUNDER_CACHE_DIR=str(tmp_path)))
    assert out.startswith("True")
    assert out.count("kernel cannot be compiled") == 1, out


def test_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    out = finish(start(PROGRAM, THUNDER_CACHE_DIR=str(tmp_path / "file")))
    assert out.startswith("True") and "cannot be compiled" not in out, out


def test_two_processes_on_an_empty_cache(tmp_path):
    both = [start(PROGRAM, THUNDER_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    for out in map(finish, both):
        assert out.strip() == "True []"


@pytest.mark.parametrize(
    "how",
    [
        "sys.exit()",
        "del f, y, x; gc.collect(); sys.exit()",
        "threading.Thread(target=thunder.jit(g), args=(x,)).start()",
    ],
)
def test_exit_while_compiling(tmp_path, how):
    # The forward waits for its own kernels; those of the backward are still being compiled.
    program = f"""
        import gc, sys, threading, torch, thunder
        g = lambda x: torch.softmax(x * 2, -1).sin()
        f = thunder.jit(g)
        x = torch.ones(40, 50, requires_grad=True)
        y = f(x)
        {how}
    """
    finish(start(program, THUNDER_CACHE_DIR=str(tmp_path)))


# ---- CUDA ----------------------------------------------------------------------------------------------------------


def nvrtc_missing():
    ((ok, log),) = _C.compile_cuda([("probe", 'extern "C" __global__ void probe() {}')], 9, 0)
    return "" if ok else log


@pytest.fixture
def cuda_texts():
    _C.always_emit_cuda(True)
    yield
    _C.always_emit_cuda(False)


def test_cuda_texts_of_the_showcase(cuda_texts):
    if why := nvrtc_missing():
        pytest.skip(f"no NVRTC: {why}")
    GPT, _ = litgpt_import.load()
    torch.manual_seed(0)
    narrow = dict(n_layer=2, n_head=4, n_embd=64, intermediate_size=176, block_size=16, padded_vocab_size=96)
    model = thunder.jit(GPT.from_name("Llama-2-7b-hf", **narrow))
    x = torch.randint(0, 96, (2, 5))
    F.cross_entropy(model(x).flatten(0, 1), x.flatten()).backward()
    traces = [thunder.last_traces(model)[-1], thunder.last_backward_traces(model)[-1]]
    sources = [pair for trace in traces for pair in _C.trace_cuda_texts(trace)]
    assert len(sources) >= 4
    for (name, _), (ok, log) in zip(sources, _C.compile_cuda(sources, 9, 0), strict=True):
        assert ok, (name, log)


def test_rows_are_divided_among_pytorchs_threads():
    def divided(count, n, grain):
        with threads(count):
            ranges = sorted(thunder._C.parallel_ranges(n, grain))
        assert ranges[0][0] == 0 and ranges[-1][1] == n
        assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:], strict=False))
        return len({thread for _, _, thread in ranges})

    assert divided(2, 1000, 10) == 2
    assert divided(3, 1 << 40, 1) == 3
    assert divided(2, 1000, 1000) == 1
    assert divided(1, 1000, 10) == 1


def steps(n):
    cell = torch.nn.GRUCell(8, 8)

    def f(x):
        h, out = torch.zeros(4, 8), []
        for i in range(n):
            h = cell(x[i % 4], h)
            out.append(h * 2)
        return torch.stack(out)

    return f


REPEATED = {
    "steps": steps,
    "parts": lambda n: lambda x: torch.cat([x[0] * i for i in range(n)]),
    "results": lambda n: lambda x: [torch.sin(x[0] * i) for i in range(n)],
    "operands": lambda n: lambda x: sum(x[i % 4].sin() * i for i in range(n)),
}


@pytest.mark.parametrize("program", REPEATED.values(), ids=REPEATED)
def test_kernels_of_what_is_repeated_are_linear_in_length(program):
    """So is the time that the compiler takes for them."""
    x = torch.randn(4, 4, 8)
    texts = []
    for n in (8, 16, 32):
        jitted = thunder.jit(program(n))
        jitted(x)
        texts.append(thunder.last_kernels(jitted))
    lengths = [len(text) for text in texts]
    assert lengths[1] < 2.5 * lengths[0] + 2000 and lengths[2] < 2.5 * lengths[1] + 2000, lengths
