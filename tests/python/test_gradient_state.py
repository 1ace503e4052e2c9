""".grad and .grad_fn, read in a compiled function."""

import pytest
import torch

import thunder


def _with_grad():
    a = torch.ones(3, requires_grad=True)
    (a * 2).sum().backward()
    return a


def test_grad_of_an_argument_is_refused():
    a = _with_grad()
    for read in (lambda a: a.grad * 2, lambda a: a * 0 if a.grad is None else a):
        with pytest.raises(NotImplementedError, match=r"\[grad\] reading .grad of a tensor(.|\n)*test_gradient_state"):
            thunder.jit(read)(a)


def test_grad_of_a_captured_tensor_is_refused():
    a = _with_grad()
    with pytest.raises(NotImplementedError, match=r"\[grad\] reading .grad"):
        thunder.jit(lambda x: x + a.grad)(torch.ones(3))


def test_grad_of_what_the_program_computes_is_none():
    def f(a):
        b = a.detach() * 2
        return b.grad is None, b.grad_fn is None, a * 1

    assert thunder.jit(f)(_with_grad())[:2] == f(_with_grad())[:2] == (True, True)


def test_grad_fn_that_is_there_is_refused():
    with pytest.raises(NotImplementedError, match=r"\[grad_fn\] reading .grad_fn"):
        thunder.jit(lambda a: (a * 2).grad_fn is None)(_with_grad())
