""".grad and .grad_fn, read in a compiled function."""

import warnings

import pytest
import torch
from eager_checks import check_left_to_eager

import thunder


def _with_grad():
    a = torch.ones(3, requires_grad=True)
    (a * 2).sum().backward()
    return a


def test_grad_of_an_argument_is_left_to_eager():
    a = _with_grad()
    for read in (lambda a: a.grad * 2, lambda a: a * 0 if a.grad is None else a * 1):
        with pytest.warns(UserWarning, match=r"\[grad\] reading .grad of a tensor(.|\n)*test_gradient_state"):
            assert torch.equal(thunder.jit(read)(a), read(a))


def test_grad_of_a_captured_tensor_is_left_to_eager():
    a = _with_grad()
    check_left_to_eager(lambda x: x + a.grad, torch.ones(3), why=r"\[grad\] reading .grad")


def test_grad_of_what_the_program_computes_is_none():
    def f(a):
        b = a.detach() * 2
        return b.grad is None, b.grad_fn is None, a * 1

    assert thunder.jit(f)(_with_grad())[:2] == f(_with_grad())[:2] == (True, True)


def test_grad_fn_that_is_there_is_left_to_eager():
    check_left_to_eager(lambda a: (a * 2).grad_fn is None, _with_grad(), why=r"\[grad_fn\] reading .grad_fn")


class Masked(torch.nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(16.0, dtype=dtype).reshape(4, 4).cos())
        self.register_buffer("mask", torch.ones(4, 4, dtype=dtype).tril())

    def forward(self, x):
        with torch.no_grad():
            self.weight *= self.mask  # Module.__setattr__ asks for the parameter's grad_fn
        return x @ self.weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_parameter_that_is_written_to_and_assigned_back(dtype):
    eager, module = Masked(dtype), Masked(dtype)
    compiled = thunder.jit(module)
    for n in (2, 2, 1, 7):
        x = torch.randn(n, 4, dtype=dtype)
        outputs = []
        for model, call in ((eager, eager), (module, compiled)):
            model.zero_grad()
            call(x).square().sum().backward()
            with torch.no_grad():
                model.weight.sub_(0.1 * model.weight.grad)
            outputs.append((call(x).detach(), model.weight.detach().clone(), model.weight.grad))
        torch.testing.assert_close(outputs[1], outputs[0])
    assert not thunder.compile_stats(compiled)["eager_calls"]


def test_grad_fn_and_leafness_of_a_captured_tensor_hold_for_it_alone():
    held = {"w": torch.ones(3, requires_grad=True)}

    def f(x):
        return x * 2 if held["w"].grad_fn is None else x * 3

    def g(x):
        return x * 2 if held["w"].is_leaf else x * 3

    for function in (f, g):
        held["w"] = torch.ones(3, requires_grad=True)
        compiled = thunder.jit(function)
        assert torch.equal(compiled(torch.ones(2)), function(torch.ones(2)))
        assert not thunder.compile_stats(compiled)["eager_calls"]
        held["w"] = torch.ones(3, requires_grad=True) * 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.equal(compiled(torch.ones(2)), function(torch.ones(2)))
