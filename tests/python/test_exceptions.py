"""Calls that raise: what was written before the exception stays written, as in eager, wherever it comes from."""

import copy
import threading
import types
import uuid
import warnings

import numpy as np
import pytest
import torch

import thunder
from thunder.core.proxies import TensorProxy
from thunder.extend import OperatorExecutor

F = torch.nn.functional


def world():
    return types.SimpleNamespace(
        calls=0, buffer=torch.zeros(1), kept=[], table=torch.ones(3, 3), array=np.zeros(2), last=None,
        by_name={"k": 1}, rows=torch.zeros(3),
    )  # fmt: skip


def raises_itself(s, x):
    s.calls += 1
    s.buffer.add_(1)
    s.kept.append(x * 2)
    s.by_name["k"] += 1
    x.mul_(2)
    if (x < 0).any():
        raise ValueError(x.sum(), s.calls)
    s.last = x + 1
    return x


def asserts(s, x):
    s.calls += 1
    x.mul_(2)
    assert x.sum() > 0, "of the user's"
    return x


def wrong_sizes(s, x):
    s.kept.append(x + 1)
    x.mul_(2)
    return x @ torch.ones(7, 7)


def index_of_a_kernel(s, x):
    s.buffer.add_(1)
    s.calls += 1
    y = F.embedding((x < 0).long() * 7, s.table).sum(-1) * 2
    x.mul_(2)
    return y


def caught_inside(s, x):
    try:
        y = s.table[(x < 0).long() * 7].sum(-1)
    except IndexError:
        s.calls += 10
        y = x * 5
    s.rows.add_(1)
    return y


def linear_algebra(s, x):
    s.calls += 1
    s.buffer.add_(1)
    return torch.linalg.cholesky(torch.diag(x)).sum()


def drawn_before(s, x):
    s.rows.add_(torch.rand(3))
    y = F.embedding((x < 0).long() * 7, s.table).sum(-1)
    return y + torch.rand(3)


def arrays(s, x):
    s.array[0] += 1
    if x.sum() < 0:
        raise RuntimeError
    return x * float(s.array[0])


def in_a_callee(s, x):
    def inner():
        s.calls += 1
        raise StopAsyncIteration("inner")

    x.add_(1)
    if x.sum() < 0:
        inner()
    return x


PROGRAMS = [
    raises_itself, asserts, wrong_sizes, index_of_a_kernel, caught_inside, linear_algebra, drawn_before, arrays,
    in_a_callee,
]  # fmt: skip


def outcome(f, s, x):
    try:
        return f(s, x), None
    except Exception as error:
        return None, error


def same(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b) and type(b) is torch.Tensor
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, types.SimpleNamespace):
        return all(same(v, vars(b)[k]) for k, v in vars(a).items())
    return a == b


@pytest.mark.filterwarnings("ignore:\\[jit\\] the compiled program raised IndexError")
@pytest.mark.parametrize("cache", ["constant values", "symbolic values", "no caching"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_writes_before_an_exception_stay(program, cache):
    worlds = world(), world()
    functions = program, thunder.jit(program, cache=cache)
    for sign in (1, -1, 1, -1, -1, 1):
        ends = []
        for s, f in zip(worlds, functions, strict=True):
            torch.manual_seed(0)
            x = torch.tensor([1.0, 2.0, 3.0]) * sign
            result, error = outcome(f, s, x)
            ends.append((result, type(error), getattr(error, "args", None), x, torch.rand(1)))
        (result, kind, args, x, after), (our_result, our_kind, our_args, our_x, our_after) = ends
        assert kind is our_kind
        if kind in (ValueError, StopAsyncIteration):
            assert same(args, our_args), f"{args} and {our_args}"
        assert same(result, our_result) and same(x, our_x) and same(*worlds), f"{worlds}"
        assert torch.equal(after, our_after)


@pytest.mark.fuser
@pytest.mark.filterwarnings("ignore:\\[jit\\] the compiled program raised IndexError")
@pytest.mark.parametrize("program", [index_of_a_kernel, caught_inside, drawn_before], ids=lambda f: f.__name__)
def test_a_kernel_that_raises(program):
    test_writes_before_an_exception_stay(program, "constant values")


def test_a_hit_that_raises_is_the_functions_own_error():
    s = world()
    f = thunder.jit(lambda x: index_of_a_kernel(s, x))
    for _ in range(4):
        f(torch.ones(3))
    misses = thunder.cache_misses(f)
    with pytest.raises(IndexError, match="index out of range in self"):
        f(-torch.ones(3))
    assert (s.calls, s.buffer.item()) == (5, 5)
    assert thunder.cache_misses(f) == misses


def test_the_compilers_errors_say_more_where_the_function_raises_too():
    s = world()
    with pytest.raises(RuntimeError, match=r"^\[") as error:
        thunder.jit(wrong_sizes)(s, torch.ones(3))
    assert "test_exceptions.py" in str(error.value)
    assert len(s.kept) == 1


def test_an_exception_that_the_function_does_not_raise_is_told():
    f = thunder.jit(lambda x: caught_inside(s, x))
    s = world()
    f(torch.ones(3))
    with pytest.warns(RuntimeWarning, match=r"\[jit\] the compiled program raised IndexError"):
        assert f(-torch.ones(3)).tolist() == [-5, -5, -5]
    assert s.calls == 10


def test_a_refusal_writes_nothing_before_eager_does():
    s, expected = world(), world()

    def f(x):
        s.calls += 1
        s.kept.append(x)
        x.add_(1)
        return x.data_ptr()

    x = torch.ones(3)
    with pytest.warns(UserWarning, match=r"^\[data_ptr\]"):
        assert thunder.jit(f)(x) == x.data_ptr()
    expected.calls += 1
    expected.kept.append(x)
    assert same(s, expected) and x.tolist() == [2, 2, 2]


def test_what_an_executor_of_the_users_raises_is_raised():
    executor = OperatorExecutor("test_" + uuid.uuid4().hex[:8])

    def broken(a):
        raise ArithmeticError("of the executor's")

    op = executor.register_operator("broken", meta=lambda a: TensorProxy(like=a), fn=broken)
    executor.register_implementation("torch.sin", op)
    for f in (thunder.jit(torch.sin, executors=[executor]), thunder.jit(lambda a: op(a))):
        with pytest.raises(ArithmeticError):
            f(torch.ones(2))


def test_interrupts_are_not_tried_again():
    calls = []

    def f(x):
        calls.append(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        thunder.jit(f)(torch.ones(1))
    assert calls == []


def test_counts_of_several_threads():
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, x):
            self.n += 1
            return x * self.n

    for _ in range(50):  # the first calls race, too
        module = Counts()
        compiled = thunder.jit(module)
        threads = [
            threading.Thread(target=lambda f=compiled: [f(torch.ones(2)) for _ in range(50)]) for _ in range(4)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert module.n == 200


def test_no_warning_where_eager_raises():
    s = world()
    f = thunder.jit(lambda x: raises_itself(s, x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sign in (1, -1, -1, 1):
            outcome(lambda _, x: f(x), s, torch.full((3,), float(sign)))
    assert s.calls == 4 and copy.copy(s.by_name) == {"k": 5}
