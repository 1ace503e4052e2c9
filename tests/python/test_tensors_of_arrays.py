"""torch.tensor(), as_tensor() and asarray() of NumPy's arrays and numbers, and of tensors."""

import numpy as np
import pytest
import torch

import thunder

PROGRAMS = {
    "an array": lambda x: torch.tensor(np.ones(3)) * x,
    "an array's dtype": lambda x: torch.as_tensor(np.arange(3, dtype=np.int16)),
    "another dtype": lambda x: torch.tensor(np.arange(3), dtype=torch.float32),
    "half": lambda x: torch.tensor(np.ones(2, dtype=np.float16)),
    "a number": lambda x: torch.tensor(np.float64(2)),
    "numbers": lambda x: torch.tensor([np.float64(2), 1]),
    "Python's numbers": lambda x: torch.tensor([2.0, 1]),
    "arrays": lambda x: torch.tensor([np.ones(2), np.zeros(2)]),
    "new_tensor": lambda x: x.new_tensor(np.arange(3)),
    "asarray": lambda x: torch.asarray(np.arange(3)) + x,
    "a tensor": lambda x: torch.tensor(x, dtype=torch.float64),
    "elements": lambda x: torch.tensor([x[0], 2.5]),
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # eager's, of a tensor made of a tensor, or of a list of arrays
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_dtype(name):
    x = torch.arange(3.0)
    actual, expected = thunder.jit(PROGRAMS[name])(x), PROGRAMS[name](x)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy])
def test_an_array_that_changes(make):
    array = np.ones(3)
    compiled = thunder.jit(lambda x: make(array) * x)
    for value in (1, 5):
        array[:] = value
        assert compiled(torch.ones(3)).tolist() == [value] * 3
    assert thunder.cache_misses(compiled) == 1


def test_an_array_that_is_an_argument():
    compiled = thunder.jit(lambda x, array: torch.tensor(array) + x)
    for array in (np.ones(3), np.zeros(3)):
        assert compiled(torch.ones(3), array).tolist() == (1 + array).tolist()


def test_as_tensor_shares_the_array():
    array = np.zeros(3)

    def f(x):
        torch.as_tensor(array).add_(x)
        torch.tensor(array).add_(x)  # a copy

    compiled = thunder.jit(f)
    for count in (1, 2):
        compiled(torch.ones(3))
        assert array.tolist() == [count] * 3


def test_a_copy_is_no_alias():
    def f(x):
        y = torch.asarray(x, copy=True)
        y.add_(1)
        return y

    x = torch.zeros(2)
    assert thunder.jit(f)(x).tolist() == [1, 1] and x.tolist() == [0, 0]


@pytest.mark.filterwarnings("ignore::UserWarning")  # eager's advice to write clone().detach()
def test_requires_grad():
    def f(x):
        y = torch.tensor(x, requires_grad=True)
        return y.requires_grad, y.is_leaf

    assert thunder.jit(f)(torch.ones(2)) == f(torch.ones(2)) == (True, True)
