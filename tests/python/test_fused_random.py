"""Random numbers drawn inside kernels: `thunder.jit(rng="fused")`."""

import math
import os
import subprocess
import sys
import textwrap

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE, ON_CPU
from fusion_checks import fusions
from torch import nn
from torch.utils.checkpoint import checkpoint

import thunder
from thunder import prims

pytestmark = [] if ON_CPU else [pytest.mark.gpu]

N = 100_000
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def fused(f, **kwargs):
    return thunder.jit(f, rng="fused", **kwargs)


def seeded(f, *args, seed=3):
    torch.manual_seed(seed)
    return f(*args)


def ones(*shape, **kwargs):
    return torch.ones(*shape, device=DEVICE, **kwargs)


def backward_text(f):
    return str(thunder.last_backward_traces(f)[-1])


# ---- distributions -------------------------------------------------------------------------------------------------


def ks_distance(x, distribution):
    """How far the empirical distribution function is from the other one, times the root of the number."""
    x = x.double().flatten().cpu().sort().values
    n = len(x)
    want, at = distribution(x), torch.arange(n + 1, dtype=torch.float64) / n
    return max((at[1:] - want).max().item(), (want - at[:-1]).max().item()) * math.sqrt(n)


KS_LIMIT = 1.95  # exceeded with a probability of 0.001


def check_moments(x, mean, variance):
    x = x.double()
    assert abs(x.mean().item() - mean) < 4.5 * math.sqrt(variance / x.numel())
    assert abs(x.var().item() / variance - 1) < 0.03


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform_and_normal_numbers(dtype):
    f = fused(lambda: (torch.rand(N, dtype=dtype, device=DEVICE), torch.randn(N, dtype=dtype, device=DEVICE)))
    u, z = seeded(f)
    assert u.dtype == z.dtype == dtype
    assert fusions(f)
    assert u.min() >= 0 and u.max() < 1
    step = {torch.bfloat16: 2**-8, torch.float16: 2**-11}.get(dtype, 0)
    check_moments(u + step / 2, 0.5, 1 / 12)
    check_moments(z, 0, 1)
    if not step:  # the others take few values
        assert ks_distance(u, lambda x: x) < KS_LIMIT
        assert ks_distance(z, torch.special.ndtr) < KS_LIMIT
    assert z.double().pow(3).mean().abs() < 0.05
    assert (z.double().pow(4).mean() - 3).abs() < 0.15


def test_integers():
    f = fused(lambda: torch.randint(-3, 5, (N,), device=DEVICE))
    counts = torch.bincount(seeded(f) + 3)
    assert len(counts) == 8
    chi_squared = ((counts - N / 8) ** 2 / (N / 8)).sum().item()
    assert chi_squared < 24.3  # exceeded with a probability of 0.001
    wide = seeded(fused(lambda: torch.randint(-(2**31), 2**31, (N,), device=DEVICE)))
    check_moments(wide / 2**31, 0, 1 / 3)


def test_wide_integers_stay_with_eager():
    def f():
        return torch.randint(-(2**40), 2**40, (64,), device=DEVICE)

    assert torch.equal(seeded(fused(f)), seeded(f))


def correlation(a, b):
    return torch.corrcoef(torch.stack([a.double().flatten(), b.double().flatten()]))[0, 1].item()


@pytest.mark.parametrize("draw", [torch.rand, torch.randn], ids=["uniform", "normal"])
def test_neighbours_calls_and_operators_are_independent(draw):
    f = fused(lambda: (draw(N, device=DEVICE), draw(N, device=DEVICE)))
    a, b = seeded(f)
    c, d = f()
    limit = 4.5 / math.sqrt(N)
    for x, y in ((a, b), (a, c), (b, c), (b, d), (a, d)):
        assert abs(correlation(x, y)) < limit
    for lag in (1, 2, 3, 4, 5, 8, 32, 256):
        assert abs(correlation(a[:-lag], a[lag:])) < limit
    assert abs(correlation(a[:-1].abs(), a[1:].abs())) < limit


OTHERS = {
    "bernoulli": (lambda x: torch.bernoulli(x * 0.3), 0.3, 0.21),
    "bernoulli.p": (lambda x: x.bernoulli(0.3), 0.3, 0.21),
    "bernoulli_": (lambda x: x.clone().bernoulli_(0.3), 0.3, 0.21),
    "uniform_": (lambda x: x.clone().uniform_(-1, 3), 1, 16 / 12),
    "normal_": (lambda x: x.clone().normal_(2, 3), 2, 9),
    "exponential_": (lambda x: x.clone().exponential_(2), 0.5, 0.25),
    "rand_like": (lambda x: torch.rand_like(x), 0.5, 1 / 12),
    "normal": (lambda x: torch.normal(x, 2 * x), 1, 4),
    "dropout": (lambda x: F.dropout(x, 0.25), 1, 1 / 3),
    "alpha_dropout": (lambda x: F.alpha_dropout(x - 1, 0.25, training=True), 0, 0.75),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_made_of_them(name):
    f, mean, variance = OTHERS[name]
    if name == "alpha_dropout":
        # Of a constant 0: two values, whose mean stays.
        got = seeded(fused(f), ones(N))
        assert abs(got.double().mean().item()) < 0.02 and len(got.unique()) == 2
        return
    compiled = fused(f)
    check_moments(seeded(compiled, ones(N)), mean, variance)
    assert "_at(" in str(thunder.last_traces(compiled)[-1])


def test_channels_are_dropped_whole():
    f = fused(lambda x: F.dropout2d(x, 0.4))
    y = seeded(f, ones(200, 50, 3, 5))
    flat = y.reshape(200 * 50, 15)
    assert torch.equal(flat.amin(1), flat.amax(1))
    check_moments(flat[:, 0], 1, 0.4 / 0.6)


# ---- the generator -------------------------------------------------------------------------------------------------


def test_reproducible_by_the_seed_and_by_the_state():
    f = fused(lambda x: F.dropout(x, 0.5) + torch.randn_like(x))
    x = ones(64, 33)
    a, b = seeded(f, x), f(x)
    assert not torch.equal(a, b)
    assert torch.equal(seeded(f, x), a) and torch.equal(f(x), b)
    assert not torch.equal(seeded(f, x, seed=4), a)
    get, put = (
        (torch.get_rng_state, torch.set_rng_state) if ON_CPU else (torch.cuda.get_rng_state, torch.cuda.set_rng_state)
    )
    state = get()
    c = f(x)
    put(state)
    assert torch.equal(f(x), c)


def test_fused_in_another_way_the_numbers_are_the_same(monkeypatch):
    """They depend on the state and the place alone, not on threads or on what else a kernel does, if there is one."""

    def f(x):
        return F.dropout(x, 0.5).t() * 2, torch.rand(40, 70, device=DEVICE).sum(1), torch.randn(70, device=DEVICE)

    x = ones(300, 257)
    want = seeded(fused(f), x)
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        for got, w in zip(seeded(fused(f), x), want, strict=True):
            torch.testing.assert_close(got, w, rtol=1e-6, atol=1e-6)
    finally:
        torch.set_num_threads(threads)
    if ON_CPU:  # whose generator gives the first draw the same state, whatever follows
        assert torch.equal(seeded(fused(lambda x: F.dropout(x, 0.5)), x) * 2, want[0].t())
    monkeypatch.setenv("THUNDER_SKIP", "fuser")
    one_by_one = fused(f)
    for got, w in zip(seeded(one_by_one, x), want, strict=True):
        torch.testing.assert_close(got, w, rtol=1e-5, atol=1e-5)
    assert not fusions(one_by_one)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_all_devices_and_ways_agree_for_one_state(dtype):
    def f(state):
        shape = (37, 65)
        u, z = prims.uniform_at(state, shape, dtype=dtype), prims.normal_at(state, shape, dtype=dtype)
        return u, z, prims.randint_at(state, shape, -9, 1000)

    state = torch.tensor([-1234567890123456789, 987654321987654321])
    want = thunder.jit(f, executors=["aten"])(state)
    compiled = thunder.jit(f)
    u, z, i = (t.cpu() for t in compiled(state.to(DEVICE)))
    assert fusions(compiled)
    assert torch.equal(u, want[0]) and torch.equal(i, want[2])
    tolerance = {torch.float64: 1e-14, torch.float32: 2e-6, torch.bfloat16: 1e-2, torch.float16: 2e-3}[dtype]
    torch.testing.assert_close(z, want[1], rtol=tolerance, atol=tolerance)


def test_eager_is_the_default():
    x = ones(1000)
    assert torch.equal(seeded(thunder.jit(lambda x: F.dropout(x, 0.5)), x), seeded(F.dropout, x))
    assert torch.equal(seeded(thunder.jit(lambda x: F.dropout(x, 0.5), rng="eager"), x), seeded(F.dropout, x))


def test_an_unknown_option():
    with pytest.raises(ValueError, match=r"unknown rng 'philox'; there are 'eager', 'fused'"):
        thunder.jit(F.dropout, rng="philox")


# ---- dropout -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_forward_and_backward_use_one_mask(dtype):
    f = fused(lambda x: torch.tanh(F.dropout(x, 0.3)) * 2)
    x = ones(65, 127, dtype=dtype).requires_grad_()
    y = seeded(f, x)
    (g,) = torch.autograd.grad(y.sum(), x)
    kept = y != 0
    assert torch.equal(g != 0, kept)
    check_moments(kept.float(), 0.7, 0.21)
    scale = 1 / 0.7
    want = torch.where(kept, torch.full_like(x, 2 * scale * (1 - math.tanh(scale) ** 2)), torch.zeros_like(x))
    torch.testing.assert_close(g, want, rtol=3e-2 if dtype in FLOATS[2:] else 1e-5, atol=1e-2)
    assert "uniform_at" in backward_text(f)


@pytest.mark.parametrize("layout", ["transposed", "gaps", "channels_last"])
def test_masks_of_other_layouts(layout):
    x = {
        "transposed": lambda: ones(70, 50).t(),
        "gaps": lambda: ones(50, 140)[:, ::2],
        "channels_last": lambda: ones(4, 8, 5, 6).to(memory_format=torch.channels_last),
    }[layout]()
    x = x.detach().requires_grad_()
    f = fused(lambda x: F.dropout(x, 0.5) * 3)
    y = seeded(f, x)
    assert y.stride() == F.dropout(x, 0.5).stride()
    (g,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(g, y)
    want = seeded(fused(lambda x: F.dropout(x, 0.5) * 3), x.detach().contiguous())
    assert torch.equal(y.detach(), want)


def test_nothing_and_all_dropped():
    x = ones(30, 40).requires_grad_()
    for p, factor in ((0.0, 1.0), (1.0, 0.0)):
        f = fused(lambda x, p=p: F.dropout(x * 2, p))
        y = f(x)
        (g,) = torch.autograd.grad(y.sum(), x)
        assert torch.equal(y, 2 * factor * torch.ones_like(x)) and torch.equal(g, 2 * factor * torch.ones_like(x))


def test_modules_train_and_eval():
    module = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.5), nn.ReLU()).to(DEVICE)
    f = fused(module)
    x = ones(8, 16)
    assert not torch.equal(f(x), f(x))
    f.eval()
    torch.testing.assert_close(f(x), module.eval()(x))
    f.train()
    assert not torch.equal(f(x), f(x))


def test_the_mask_is_not_kept():
    f = fused(lambda x: torch.sin(F.dropout(x, 0.1)) + F.dropout(torch.cos(x), 0.2))
    x = ones(64, 64).requires_grad_()
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.numel()) or t, lambda t: t):
        f(x)
    assert sorted(set(sizes) - {64 * 64}) == [2] and sizes.count(64 * 64) == 1, sizes
    assert backward_text(f).count("uniform_at") == 2


def test_gradients_against_the_mask_that_was_drawn():
    """A block with dropout in attention, behind it and in an MLP: eager with the masks that the states stand for."""
    width, rows = 32, 12
    masks = []

    def block(x, w1, w2, drop):
        q, k, v = (x @ w1).chunk(3, -1)
        weights = drop(torch.softmax(q @ k.transpose(-1, -2) / width**0.5, -1))
        x = x + drop(weights @ v)
        return x + drop(F.gelu(x @ w2))

    def record(x):
        y = F.dropout(x, 0.2)
        masks.append(y)
        return y

    g = torch.Generator().manual_seed(0)
    args = [torch.randn(s, generator=g).to(DEVICE) / 4 for s in ((3, rows, width), (width, 3 * width), (width, width))]
    args = [a.requires_grad_() for a in args]

    def with_masks(*args):
        masks.clear()
        y = block(*args, drop=record)
        return (y, *[m.ne(0) for m in masks])

    f = fused(with_masks)
    y, *kept = seeded(f, *args)
    got = torch.autograd.grad(y.pow(2).sum(), args)
    left = iter(kept)
    want_y = block(*args, drop=lambda x: x * next(left) / 0.8)
    want = torch.autograd.grad(want_y.pow(2).sum(), args)
    torch.testing.assert_close(y, want_y, rtol=1e-4, atol=1e-4)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_attention_with_dropout():
    q, k, v = (torch.randn(2, 3, 16, 8, device=DEVICE).requires_grad_() for _ in range(3))
    f = fused(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.5))
    first, second = seeded(f, q, k, v), f(q, k, v)
    assert not torch.equal(first, second)
    assert torch.equal(seeded(f, q, k, v), first)
    mean = torch.stack([f(q, k, v).detach() for _ in range(400)]).mean(0)
    torch.testing.assert_close(mean, F.scaled_dot_product_attention(q, k, v).detach(), rtol=0, atol=0.35)
    torch.autograd.grad(second.sum(), (q, k, v))


def test_checkpoint_computes_with_the_same_mask():
    f = fused(lambda x: F.dropout(x * 1.5, 0.5))
    x = ones(40, 50).requires_grad_()
    y = checkpoint(lambda x: f(x) ** 2, x, use_reentrant=False)
    (g,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(g, 2 * y.detach())


def test_a_backward_twice():
    f = fused(lambda x: F.dropout(x, 0.5) ** 2)
    x = ones(40, 50).requires_grad_()
    y = f(x)
    (first,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    f(x)  # draws other numbers
    (second,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(first, second)


def test_without_gradients_and_under_no_grad():
    def f(x):
        with torch.no_grad():
            noise = F.dropout(x, 0.5)
        return x * noise

    x = ones(64, 65).requires_grad_()
    y = seeded(fused(f), x)
    (g,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(g, y)
    with torch.no_grad():
        assert torch.equal(seeded(fused(f), x), y)


def test_sizes_that_only_the_run_knows_draw_as_eager_does():
    def f(x):
        return F.dropout(x[x > 0], 0.5)

    x = torch.linspace(-1, 2, 300).to(DEVICE)
    assert torch.equal(seeded(fused(f), x), seeded(f, x))


@pytest.mark.skipif(not ON_CPU, reason="the host's compiler is asked for")
def test_without_a_compiler(tmp_path):
    program = """
        import sys, torch, thunder
        torch.manual_seed(0)
        x = torch.ones(50, 60).requires_grad_()
        f = thunder.jit(lambda x: (torch.nn.functional.dropout(x, 0.5) * 3).sin(), rng="fused")
        y = f(x)
        g, = torch.autograd.grad(y.sum(), x)
        assert torch.equal(y != 0, g != 0) and 0.4 < (y != 0).float().mean() < 0.6
        torch.save(y.detach(), sys.argv[1])
    """
    results = []
    for name, environment in (("with", {}), ("without", {"CXX": "/nonexistent", "PATH": ""})):
        env = {**os.environ, "THUNDER_CACHE_DIR": str(tmp_path / name), **environment}
        file = str(tmp_path / (name + ".pt"))
        command = [sys.executable, "-c", textwrap.dedent(program), file]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        assert ("cannot be compiled" in done.stderr) == (name == "without")
        results.append(torch.load(file))
    torch.testing.assert_close(*results)
