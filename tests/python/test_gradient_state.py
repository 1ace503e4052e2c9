""".grad and .grad_fn, read in a compiled function."""

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
