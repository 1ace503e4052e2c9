"""Arguments that are no tensors and cannot change: another one of the same value runs the same program."""

import functools
import pathlib

import numpy as np
import pytest
import torch

import thunder


def scaled(x, *, by, offset=0):
    return x * by + offset


EQUAL = {
    "slice": (lambda x, s: x[s] * 2, lambda: slice(0, 10)),
    "slices": (lambda x, s: x[s] * 2, lambda: (slice(0, 10), slice(None, None, 2))),
    "slice of tensors": (lambda x, s: x[s] * 2, lambda: slice(torch.tensor(1), torch.tensor(4))),
    "range": (lambda x, r: sum(x[i].sum() for i in r), lambda: range(0, 6, 2)),
    "bytes": (lambda x, b: x * b[1] + len(b), lambda: bytes([1, 2])),
    "complex": (lambda x, c: (x * c).abs(), lambda: complex(1, 2)),
    "frozenset": (lambda x, s: x * len(s) + sum(s), lambda: frozenset({1, 5})),
    "path": (lambda x, p: x * len(str(p)) * len(p.parts), lambda: pathlib.Path("/a/b")),
    "float64": (lambda x, a: x * a + a.dtype.itemsize, lambda: np.float64(2.5)),
    "float32": (lambda x, a: x * a + (a / 3).item(), lambda: np.float32(2.5)),
    "float16": (lambda x, a: x * float(a), lambda: np.float16(2.5)),
    "int64": (lambda x, a: x[:a] * a, lambda: np.int64(3)),
    "int8": (lambda x, a: x * int(a + a), lambda: np.int8(100)),
    "bool": (lambda x, a: x * 2 if a else x, lambda: np.bool_(True)),
    "partial": (lambda x, h: h(x), lambda: functools.partial(torch.mul, other=2)),
    "partial of Python's": (lambda x, h: h(x, by=3) * len(h.keywords), lambda: functools.partial(scaled, offset=1)),
    "partial of a tensor": (lambda x, h: h(x), lambda: functools.partial(torch.add, torch.ones(4), alpha=2)),
    "nested": (lambda x, d: x[d["s"][0]] * d["s"][1], lambda: {"s": [slice(1, 5), np.float64(0.5)]}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.filterwarnings("ignore:overflow")
def test_another_of_the_same_value_runs_the_same_program(name, dtype):
    f, make = EQUAL[name]
    compiled = thunder.jit(f)
    for _ in range(5):
        x, y = (torch.arange(80, dtype=dtype).reshape(20, 4).requires_grad_() for _ in range(2))
        got, want = compiled(x, make()), f(y, make())
        torch.testing.assert_close(got, want)
        got.sum().backward(), want.sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert thunder.cache_misses(compiled) == 1, thunder.compile_stats(compiled)["last_miss"]


DIFFERENT = {
    "slice": (lambda x, s: x[s] * 2, [slice(0, 3), slice(0, 5), slice(2, None), slice(0, 5, 2), slice(-3, None)]),
    "range": (lambda x, r: x[list(r)], [range(3), range(1, 3), range(0, 3, 2), range(2**70, 2**70)]),
    "bytes": (lambda x, b: x * b[0], [b"a", b"b", b"ab"]),
    "complex": (lambda x, c: x * c, [1 + 2j, 1 - 2j, complex(-0.0, 2), complex(0.0, 2)]),
    "frozenset": (lambda x, s: x * sum(s), [frozenset({1}), frozenset({2}), frozenset({1, 2}), frozenset({1.0, 2})]),
    "path": (lambda x, p: x * len(str(p)), [pathlib.Path("/a"), pathlib.Path("/ab"), pathlib.PurePosixPath("/a")]),
    "dtypes": (
        lambda x, a: x * (a * a).item(),
        [np.float32(0.1), np.float64(0.1), np.float16(0.1), np.int8(11), np.int64(11), np.uint8(17), np.bool_(True)],
    ),
    "partial": (
        lambda x, h: h(x),
        [
            functools.partial(torch.mul, other=2),
            functools.partial(torch.mul, other=3),
            functools.partial(torch.add, other=2),
            functools.partial(scaled, by=2),
            functools.partial(scaled, by=2, offset=1),
        ],
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
@pytest.mark.filterwarnings("ignore:overflow")
def test_each_value_has_its_result(name):
    f, values = DIFFERENT[name]
    compiled = thunder.jit(f)
    x = torch.randn(8, 4)
    for value in values * 2:
        torch.testing.assert_close(compiled(x, value), f(x, value))


def test_what_varies_in_a_slice_is_a_size():
    def f(x, s):
        return x[s].sum(0)

    compiled = thunder.jit(f)
    for n in range(2, 12):
        x = torch.randn(20, 3)
        torch.testing.assert_close(compiled(x, slice(0, n)), f(x, slice(0, n)))
    assert thunder.cache_misses(compiled) <= 3, thunder.compile_stats(compiled)["last_miss"]


def test_a_slice_that_comes_back():
    def f(x, s):
        return x[s], s, {"s": (s, slice(s.start, s.stop + 1))}

    compiled = thunder.jit(f)
    for n in (4, 5, 6, 7):
        x = torch.randn(20)
        got, want = compiled(x, slice(2, n)), f(x, slice(2, n))
        assert torch.equal(got[0], want[0]) and got[1:] == want[1:]
        assert type(got[1].stop) is int


def test_float64_of_numpy_varies_as_a_float_does():
    def f(x, s):
        assert isinstance(s, float) and type(s) is np.float64 and isinstance(s * 2, np.floating)
        return x * s + (1 - s) / 3

    compiled = thunder.jit(f)
    for s in np.linspace(0.2, 0.9, 12):
        x = torch.randn(3)
        torch.testing.assert_close(compiled(x, s), f(x, s))
    assert thunder.cache_misses(compiled) == 2, thunder.compile_stats(compiled)["last_miss"]


def test_float64_of_numpy_and_float_are_told_apart():
    def f(x, s):
        return x * 2 if type(s) is float else x * s.item()

    compiled = thunder.jit(f)
    for s in (0.25, np.float64(0.25), 0.5, np.float64(0.5), 0.75, np.float64(0.75)):
        torch.testing.assert_close(compiled(torch.ones(2), s), f(torch.ones(2), s))


def test_float64_of_numpy_comes_back_as_it_is():
    def f(x, s):
        return x * s, s * 2

    compiled = thunder.jit(f)
    for s in np.linspace(0.2, 0.9, 4):
        got, want = compiled(torch.ones(2), s), f(torch.ones(2), s)
        assert torch.equal(got[0], want[0]) and got[1] == want[1] and type(got[1]) is type(want[1])


def test_a_partial_that_comes_back_is_the_callers():
    compiled = thunder.jit(lambda x, h: (h(x), h))
    for i in range(3):
        given = functools.partial(torch.add, torch.full((2,), float(i)))
        result, back = compiled(torch.ones(2), given)
        assert back is given and torch.equal(result, torch.ones(2) + i)


def test_gradients_through_a_partial():
    compiled = thunder.jit(lambda x, h: h(x))
    for n in (2, 5, 1):
        weight = torch.randn(n, requires_grad=True)
        x = torch.randn(3, n)
        compiled(x, functools.partial(torch.mul, other=weight)).sum().backward()
        torch.testing.assert_close(weight.grad, x.sum(0))
