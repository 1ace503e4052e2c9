"""len() of a tensor is its first size, which may be another one in the next call."""

import warnings

import pytest
import torch

import thunder

SIZES = (2, 5, 8, 3, 7, 16)


def filled(xs):
    out = torch.zeros(3, max(len(x) for x in xs), 4)
    for i, x in enumerate(xs):
        out[i, : len(x)] = x
    return out.sum(1)


def matched(x):
    if isinstance(x, torch.Tensor) and isinstance(len(x), int) and type(len(x)) is int:
        return x * len(x)
    return x


OF_ONE = {
    "mean": lambda x: x.sum(0) / len(x),
    "arange": lambda x: (x @ x.t()) + torch.arange(len(x)),
    "slice": lambda x: x[: len(x) // 2] * 2,
    "zeros": lambda x: torch.zeros(len(x), 3) + x[:, :1],
    "view": lambda x: x.view(len(x), -1) + 1,
    "method": lambda x: x * x.__len__(),
    "of a view": lambda x: x.t()[:, 1:] * len(x.t()[0, 1:]),
    "branch": lambda x: x * 2 if len(x) > 1 else x,
    "type": matched,
    "targets": lambda x: torch.nn.functional.cross_entropy(x @ x.t(), torch.arange(len(x))),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", OF_ONE)
def test_a_length_is_a_size(name, dtype):
    compiled = thunder.jit(OF_ONE[name])
    for n in SIZES:
        x = torch.randn(n, 4, dtype=dtype, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        got, want = compiled(x), OF_ONE[name](y)
        torch.testing.assert_close(got, want)
        got.sum().backward(), want.sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert thunder.cache_misses(compiled) == 2, thunder.compile_stats(compiled)["last_miss"]


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("name", ["mean", "zeros", "method", "branch"])
def test_of_no_and_of_one_element(name, n):
    compiled = thunder.jit(OF_ONE[name])
    for size in (3, 5, n, 4, n):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), OF_ONE[name](x), equal_nan=True)


OF_MANY = {
    "one": (lambda xs: xs[0] * len(xs[0]), 2),
    "sum": (lambda xs: xs[0] * sum(len(x) for x in xs), 2),
    "list": (lambda xs: xs[0] * [len(x) for x in xs][1], 2),
    "tensor": (lambda xs: torch.tensor([len(x) for x in xs]) + xs[0].sum(), 2),
    "split": (lambda xs: sum(t.mean() for t in torch.cat(xs).split([len(x) for x in xs])), 2),
    "largest": (lambda xs: xs[0] * max(len(x) for x in xs), 4),  # a program for each that is the longest
    "filled": (filled, 4),
}


@pytest.mark.parametrize("name", OF_MANY)
def test_lengths_of_a_ragged_list(name):
    f, most = OF_MANY[name]
    compiled = thunder.jit(f)
    for i in range(10):
        generator = torch.Generator().manual_seed(i)
        xs = [torch.randn(int(n), 4) for n in torch.randint(2, 20, (3,), generator=generator)]
        torch.testing.assert_close(compiled(xs), f(xs))
    assert thunder.cache_misses(compiled) <= most, thunder.compile_stats(compiled)["last_miss"]


def test_what_needs_the_number_itself_is_compiled_for_it():
    compiled = thunder.jit(lambda x: sum(x[i] for i in range(len(x))))
    for n in SIZES:
        x = torch.randn(n, 4)
        torch.testing.assert_close(compiled(x), x.sum(0))


def test_a_scalar_has_none():
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
        thunder.jit(lambda x: x * len(x))(torch.tensor(2.0))


def test_the_length_of_what_depends_on_values():
    compiled = thunder.jit(lambda x: x[x > 0].sum() / len(x[x > 0]))
    for n in (4, 5, 8):
        x = torch.randn(n).abs() * torch.tensor([1.0, -1] * 4)[:n]
        torch.testing.assert_close(compiled(x), x[x > 0].mean())


WRITES = {
    "number": lambda y: y.__setitem__(slice(0, 2), 5.0),
    "from the end": lambda y: y.__setitem__(slice(-3, None), 0.0),
    "new dimension": lambda y: y.__setitem__((None, slice(1, 3)), 2.0),
    "tensor": lambda y: y.__setitem__(slice(0, 2), torch.ones(2)),
}


@pytest.mark.parametrize("write", WRITES)
def test_slices_of_what_depends_on_values_are_written(write):
    def f(x):
        y = x[x > 0]
        WRITES[write](y)
        return y

    compiled = thunder.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(4):
            x = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))
            assert torch.equal(compiled(x), f(x))
    assert thunder.cache_misses(compiled) == 1 and not thunder.compile_stats(compiled)["eager_calls"]
