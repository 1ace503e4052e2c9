"""Functions of the module math, and round(), of numbers that change from call to call."""

import math

import pytest
import torch
from symbolic_checks import check

import thunder

OF_FLOATS = {
    "exp": math.exp,
    "expm1": math.expm1,
    "log": lambda s: math.log(abs(s)),
    "log of a base": lambda s: math.log(abs(s), 3) + math.log(5, abs(s)),
    "log2": lambda s: math.log2(abs(s)),
    "log10": lambda s: math.log10(abs(s)),
    "log1p": lambda s: math.log1p(abs(s)),
    "sqrt": lambda s: math.sqrt(abs(s)),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": lambda s: math.asin(s / 100),
    "acos": lambda s: math.acos(s / 100),
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "fabs": math.fabs,
    "pow": lambda s: math.pow(abs(s), 1.5) + math.pow(2, s),
    "degrees": math.degrees,
    "radians": math.radians,
    "round": lambda s: round(s / 3, 2) + round(s, 0) + round(s, 12),
    "sigmoid": lambda s: 1 / (1 + math.exp(-0.25 * (s - 2))),
    "cosine": lambda s: 0.5 * (1 + math.cos(math.pi * s / 10)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OF_FLOATS)
def test_of_floats(name, dtype):
    calls = [(torch.randn(3, 4).to(dtype), s) for s in (2.5, 3.5, -7.25, 0.3, 9.125)]
    check(lambda x, s: x * OF_FLOATS[name](s), calls, compiles=2)


@pytest.mark.parametrize("name", OF_FLOATS)
def test_the_bits_are_pythons(name):
    def f(x, s):
        return torch.full((1,), OF_FLOATS[name](s), dtype=torch.float64)

    compiled = thunder.jit(f, cache="symbolic values")
    for s in (2.5, 0.1, -3.7, 11.3, 1e-3):
        assert compiled(torch.ones(1), s).item() == OF_FLOATS[name](s)


def test_of_an_int_that_counts():
    class Annealed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.step = 0

        def forward(self, x):
            self.step += 1
            return x * math.exp(-self.step / 100) + round(self.step) + math.floor(self.step) + math.pow(self.step, 2)

    eager, module = Annealed(), Annealed()
    compiled = thunder.jit(module)
    for _ in range(12):
        x = torch.randn(3)
        torch.testing.assert_close(compiled(x), eager(x))
    assert thunder.cache_misses(compiled) <= 4, thunder.compile_stats(compiled)["last_miss"]


def test_of_a_step_among_the_arguments():
    def f(x, step):
        return x * (1 / (1 + math.exp(-0.0025 * (step - 100)))) + math.sqrt(step) * math.log(step)

    compiled = thunder.jit(f)
    for step in range(2, 12):
        torch.testing.assert_close(compiled(torch.ones(3), step), f(torch.ones(3), step))
    assert thunder.cache_misses(compiled) == 2, thunder.compile_stats(compiled)["last_miss"]


def test_of_a_number_that_a_tensor_holds():
    def f(x):
        return x * math.exp(-x.abs().max().item()) + round(x.sum().item(), 3)

    compiled = thunder.jit(f)
    for i in range(6):
        x = torch.randn(5, generator=torch.Generator().manual_seed(i))
        torch.testing.assert_close(compiled(x), f(x))
    assert thunder.cache_misses(compiled) <= 2, thunder.compile_stats(compiled)["last_miss"]


@pytest.mark.parametrize(
    ("function", "fine", "wrong", "error"),
    [
        (math.log, (2.5, 3.5, 4.5), -2.5, ValueError),
        (math.sqrt, (2.5, 3.5, 4.5), -2.5, ValueError),
        (math.log1p, (2.5, 3.5, 4.5), -2.5, ValueError),
        (math.exp, (2.5, 3.5, 4.5), 1000.5, OverflowError),
        (math.cosh, (2.5, 3.5, 4.5), 1000.5, OverflowError),
        (math.acos, (0.5, 0.25, 0.75), 2.5, ValueError),
    ],
)
def test_what_raises_raises(function, fine, wrong, error):
    compiled = thunder.jit(lambda x, s: x * function(s))
    for s in fine:
        torch.testing.assert_close(compiled(torch.ones(2), s), torch.ones(2) * function(s))
    for _ in range(2):
        with pytest.raises(error):
            compiled(torch.ones(2), wrong)
    torch.testing.assert_close(compiled(torch.ones(2), fine[0]), torch.ones(2) * function(fine[0]))


def test_other_functions_are_told_the_number():
    def f(x, s):
        return x * math.gamma(s) + math.hypot(s, 2.0) + math.floor(s) + round(s)

    compiled = thunder.jit(f)
    for s in (2.5, 3.5, 4.25):
        torch.testing.assert_close(compiled(torch.ones(2), s), f(torch.ones(2), s))
