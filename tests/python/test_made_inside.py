"""Functions, classes and wrappers that a program makes anew in each call are its own: it is compiled once."""

import contextlib
import dataclasses
import functools
import inspect
import typing

import pytest
import torch

import thunder


def wrapped(x):
    def inner(y):
        return y + 1

    @functools.wraps(inner)
    def outer(*args):
        return inner(*args) * 2

    return outer(x) * len(outer.__name__)


def without_gradient(x):
    @torch.no_grad()
    def double(y):
        return y * 2

    return x + double(x)


def context_manager(x):
    @contextlib.contextmanager
    def scaled(by):
        yield x * by

    with scaled(3) as y:
        return y + 1


def numbers_kept(x):
    @functools.lru_cache(maxsize=64)
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return x * fibonacci(10)


def tensors_kept(x):
    @functools.cache
    def power(n):
        return x if n == 1 else power(n - 1) * x

    return power(3) + power(2)


def attributes_of_a_function(x):
    def inner(y):
        return y * inner.by

    inner.by = 3
    vars(inner)["of"] = 4
    return inner(x) * len(vars(inner)) * inner.of


def dataclass(x):
    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor
        n: int = 3

    return dataclasses.replace(Batch(x), n=4).x * Batch(x).n


def named_tuple(x):
    class Pair(typing.NamedTuple):
        a: torch.Tensor
        b: int = 2

    pair = Pair(x)
    return pair.a * pair.b + len(Pair.__annotations__)


def signature_of_a_method(x):
    class Model:
        def __init__(self, width):
            self.width = width

    return x * len(inspect.signature(Model.__init__).parameters) + len(inspect.signature(Model).parameters)


PROGRAMS = [
    wrapped,
    without_gradient,
    context_manager,
    numbers_kept,
    tensors_kept,
    attributes_of_a_function,
    dataclass,
    named_tuple,
    signature_of_a_method,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_compiled_once(program):
    compiled = thunder.jit(program)
    for _ in range(3):
        x = torch.randn(3, requires_grad=True)
        y = torch.randn(3)
        result, expected = compiled(x), program(x)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(torch.autograd.grad(result, x, y), torch.autograd.grad(expected, x, y))
    assert thunder.compile_stats(compiled).cache_misses == 1
