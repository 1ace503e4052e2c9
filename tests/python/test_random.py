"""Random operators draw the numbers that eager draws from the same seed, in the same order."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

import thunder


def seeded(fn, *args, **kwargs):
    torch.manual_seed(5)
    return fn(*args, **kwargs)


def agree(fn, *args):
    compiled = thunder.jit(fn)
    for _ in range(2):  # compiled, then from the cache
        actual, expected = seeded(compiled, *args), seeded(fn, *args)
        assert actual.dtype == expected.dtype
        assert actual.stride() == expected.stride()
        torch.testing.assert_close(actual, expected)


def tensors(dtype=torch.float32):
    base = torch.arange(120).reshape(4, 5, 6).to(dtype)
    yield base[0, 0]
    yield base.transpose(0, 1)
    yield base[:, ::2, 1:]


FACTORIES = {
    "rand": lambda x: torch.rand(3, 4),
    "randn": lambda x: torch.randn((3, 4), dtype=torch.float64, requires_grad=False),
    "randint": lambda x: torch.randint(7, (20,)),
    "randint.low": lambda x: torch.randint(-3, 7, (20,), dtype=torch.int32),
    "randperm": lambda x: torch.randperm(20),
    "rand_like": lambda x: torch.rand_like(x),
    "randn_like": lambda x: torch.randn_like(x, dtype=torch.bfloat16),
    "randint_like": lambda x: torch.randint_like(x, 9),
    "randint_like.low": lambda x: torch.randint_like(x, -4, 9, dtype=torch.int64),
    "normal": lambda x: torch.normal(1.0, 2.0, (4, 5)),
    "normal.Tensor_float": lambda x: torch.normal(x, 0.5),
    "normal.float_Tensor": lambda x: torch.normal(2.0, x.abs()),
    "normal.Tensor_Tensor": lambda x: torch.normal(x, x.abs() + 1),
    "bernoulli": lambda x: torch.bernoulli(torch.sigmoid(x)),
    "bernoulli.p": lambda x: x.bernoulli(0.3),
    "multinomial": lambda x: torch.multinomial(x.reshape(-1).abs() + 1, 4),
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout2d": lambda x: F.dropout2d(x.reshape(-1, 1, 1, 1), 0.3),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_new_tensors(name):
    for x in tensors():
        agree(FACTORIES[name], x)


IN_PLACE = {
    "uniform_": (-1.0, 2.0),
    "normal_": (1.0, 2.0),
    "log_normal_": (0.0, 0.5),
    "exponential_": (3.0,),
    "cauchy_": (1.0, 2.0),
    "geometric_": (0.3,),
    "bernoulli_": (0.3,),
    "random_": (3, 50),
}
FLOATS = {"uniform_", "normal_", "log_normal_", "exponential_", "cauchy_"}


DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name, dtype):
    if name in FLOATS and not dtype.is_floating_point:
        pytest.skip("a distribution of real numbers")
    for given in ((), IN_PLACE[name]):
        if not given and name == "geometric_":
            continue
        for x in tensors(dtype):

            def fill(t, given=given):
                return getattr(t.clone(), name)(*given) + 1

            agree(fill, x)


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_input_is_filled(name):
    results = []
    for jit in (lambda f: f, thunder.jit):
        whole = torch.zeros(4, 6)
        seeded(jit(lambda t: getattr(t[:, ::2], name)(*IN_PLACE[name])), whole)
        results.append(whole)
    assert torch.equal(*results)
    assert results[0][:, ::2].any() and not results[0][:, 1::2].any()


def test_bernoulli_of_probabilities():
    agree(lambda x, p: x.clone().bernoulli_(p), torch.zeros(4, 5), torch.rand(4, 5))
    agree(lambda x, p: x.clone().bernoulli_(p), torch.zeros(4, 5, dtype=torch.int64), torch.rand(5))


def test_a_parameter_is_initialised_under_no_grad():
    results = []
    for jit in (lambda f: f, thunder.jit):
        w = torch.zeros(5, 6, requires_grad=True)

        def init(w):
            with torch.no_grad():
                w.uniform_(-0.1, 0.1)
            return (w * 2).sum()

        loss = seeded(jit(init), w)
        loss.backward()
        results.append((loss.detach(), w.detach().clone(), w.grad))
    for mine, theirs in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(mine, theirs)


def test_gradient_of_normal_is_eagers_zero():
    mean, std = torch.randn(4, requires_grad=True), torch.rand(4, requires_grad=True)
    out = thunder.jit(torch.normal)(mean, std)
    for g in torch.autograd.grad(out.sum(), (mean, std)):
        assert not g.any()


MISTAKES = {
    "uniform_": (2.0, 1.0),
    "normal_": (0.0, -1.0),
    "log_normal_": (0.0, -1.0),
    "exponential_": (-1.0,),
    "cauchy_": (0.0, -1.0),
    "geometric_": (1.5,),
    "bernoulli_": (1.5,),
    "random_": (4, 4),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_eagers_errors(name):
    call = lambda t: getattr(t.clone(), name)(*MISTAKES[name])
    with pytest.raises(RuntimeError):
        call(torch.zeros(3))
    with pytest.raises(RuntimeError):
        thunder.jit(call)(torch.zeros(3))


def test_new_tensor():
    x = torch.zeros(2, dtype=torch.float64)
    for fn in (
        lambda x: x.new_tensor([1, 2]) + x,
        lambda x: x.new_tensor(3),
        lambda x: x.new_tensor([[1.5]], dtype=torch.float32),
        lambda x: x.to(torch.int64).new_tensor([1.5]),
    ):
        torch.testing.assert_close(thunder.jit(fn)(x), fn(x))


SEEDED = """
import torch, thunder
draw = lambda: torch.rand(8, device="cuda")
torch.manual_seed(3)
first = thunder.jit(draw)()
torch.manual_seed(3)
assert torch.equal(first, draw())
"""


@pytest.mark.gpu
def test_a_seed_from_before_cuda_was_used():
    done = subprocess.run([sys.executable, "-c", SEEDED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
