"""Functions that TorchScript compiled, and PyTorch's operators of control flow."""

import enum

import pytest
import torch
from torch._higher_order_ops import associative_scan, cond, scan, while_loop

import thunder

SIZES = 5, 1, 8, 3


@torch.jit.script
def bucket(x, size: int):
    half = size // 2
    return torch.where((x < half) & (x > -half), torch.full_like(x, half - 1), x.abs().log() * torch.sign(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.linear(x).relu()


def scanned(a, b):
    """s[i] = a[i] * s[i - 1] + b[i], in a loop."""
    state, states = torch.zeros_like(b[:, 0]), []
    for i in range(a.shape[1]):
        state = a[:, i] * state + b[:, i]
        states.append(state)
    return torch.stack(states, 1)


def scanned_in_parallel(a, b):
    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    mode = "generic" if a.device.type == "cpu" else "pointwise"
    return associative_scan(combine, (a, b), dim=1, combine_mode=mode)[1]


def check(function, expected, arguments, compiled):
    copies = [[a.detach().clone().requires_grad_(a.is_floating_point()) for a in arguments] for _ in range(2)]
    got, want = compiled(*copies[0]), expected(*copies[1])
    torch.testing.assert_close(got, want)
    weights = torch.arange(1.0, want.numel() + 1).reshape(want.shape).cos().to(want)
    (got * weights).sum().backward()
    (want * weights).sum().backward()
    for a, b in zip(*copies, strict=True):
        # What a result does not depend on has no gradient, or zeros.
        torch.testing.assert_close(torch.zeros_like(b) if a.grad is None else a.grad, b.grad)


def test_scripted_function():
    def program(x):
        return bucket(x * 3, 4) * 2

    compiled = thunder.jit(program)
    for n in SIZES:
        check(program, program, [torch.randn(n, 4)], compiled)
    assert not thunder.compile_stats(compiled)["eager_calls"]
    assert "where" in str(thunder.last_traces(compiled)[0])


def test_scripted_module_runs_by_eager():
    module = torch.nn.Sequential(torch.jit.script(Net()), torch.nn.Linear(3, 2))
    compiled, x = thunder.jit(module), torch.randn(5, 4)
    torch.testing.assert_close(compiled(x), module(x))
    (reason,) = thunder.compile_stats(compiled)["eager_calls"]
    assert "TorchScript" in reason


def test_associative_scan():
    compiled = thunder.jit(scanned_in_parallel)
    for n in SIZES:
        arguments = [torch.rand(3, n, 2), torch.randn(3, n, 2)]
        check(scanned_in_parallel, scanned, arguments, compiled)
    assert not thunder.compile_stats(compiled)["eager_calls"]


def test_scan():
    def program(x):
        return scan(lambda carry, row: (carry + row, carry * row), torch.zeros_like(x[0]), x)[1]

    def in_a_loop(x):
        carry, rows = torch.zeros_like(x[0]), []
        for row in x:
            rows.append(carry * row)
            carry = carry + row
        return torch.stack(rows)

    compiled = thunder.jit(program)
    for n in SIZES:
        check(program, in_a_loop, [torch.randn(n, 3)], compiled)
    misses = thunder.cache_misses(compiled)
    check(program, in_a_loop, [torch.randn(5, 3)], compiled)
    assert thunder.cache_misses(compiled) == misses


@pytest.mark.parametrize("sign", [1, -1])
def test_cond(sign):
    def program(x):
        return cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    compiled = thunder.jit(program)
    for n in SIZES:
        x = sign * torch.rand(n)
        check(program, torch.sin if sign > 0 else torch.cos, [x], compiled)
        check(program, torch.cos if sign > 0 else torch.sin, [-x], compiled)


def test_while_loop():
    def program(x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.zeros((), dtype=int), x))[1]

    compiled = thunder.jit(program)
    for n in SIZES:
        x = torch.randn(n)
        torch.testing.assert_close(compiled(x), x * 8)


def _maybe_compile_and_run_fn(x, y):
    return x - y


def test_a_function_of_the_name_of_pytorchs():
    x = torch.randn(3)
    torch.testing.assert_close(thunder.jit(lambda x: _maybe_compile_and_run_fn(x, 2 * x))(x), -x)


class Reduction(enum.Enum):
    MEAN = "mean"
    SUM = "sum"


COMPARISONS = {
    "None": lambda x: x == None,  # noqa: E711  # what is tested
    "not None": lambda x: None != x,  # noqa: E711  # what is tested
    "a string": lambda x: x == "mean",
    "a dict": lambda x: x != {},
    "a list": lambda x: x == [1.0, 2.0],
    "a member of an enumeration": lambda x: x == Reduction.MEAN or Reduction.SUM != x,
    "in a list": lambda x: (x in [None, "mean", x], [None, x].index(x)),
    "the method": lambda x: x.__eq__("mean"),
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparing_a_tensor_with_what_is_none(name):
    x, f = torch.ones(2), COMPARISONS[name]
    compiled = thunder.jit(lambda x: (x * 2, f(x)))
    for _ in range(2):
        assert compiled(x)[1] == f(x)
    assert thunder.cache_misses(compiled) == 1


def test_patterns_of_a_match():
    def f(x):
        match x:
            case Reduction.MEAN | None | "mean":
                return torch.zeros(1)
            case {"x": inner, **others}:
                return inner * len(others)
            case torch.Tensor(ndim=2):
                return x.sum(0)
            case torch.Tensor():
                return x + 1

    compiled = thunder.jit(f)
    for x in (torch.ones(2), torch.ones(2, 3), Reduction.MEAN, {"x": torch.ones(2), "y": 1}, "mean"):
        torch.testing.assert_close(compiled(x), f(x))
