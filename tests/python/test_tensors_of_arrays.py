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


INDICES = {
    "rows": np.array([2, 0]),
    "a mask": np.array([True, False, True]),
    "a number": np.int64(1),
    "columns": (slice(None), np.array([0, 3, 3])),
    "pairs": (np.array([0, 1]), np.array([[1], [2]])),
    "in a list": [np.int64(0), np.int64(2)],
}


@pytest.mark.parametrize("name", INDICES)
def test_arrays_as_indices(name):
    key = INDICES[name]

    def f(x):
        y = x.clone()
        y[key] = x.sum()
        return x[key], y

    compiled = thunder.jit(f)
    for _ in range(3):
        x = torch.randn(3, 4, requires_grad=True)
        results, expected = compiled(x), f(x)
        torch.testing.assert_close(results, expected)
        gradients = [torch.autograd.grad(r[0].sum() + r[1].cos().sum(), x) for r in (results, expected)]
        torch.testing.assert_close(gradients[0], gradients[1])
    assert thunder.cache_misses(compiled) == 1


def test_an_array_of_indices_that_changes():
    key = np.array([0, 1])
    compiled = thunder.jit(lambda x: x[key])
    x = torch.arange(3.0)
    for last in (1, 2):
        key[1] = last
        assert compiled(x).tolist() == [0, last]
    with pytest.raises(IndexError):
        key[1] = 3
        compiled(x)


def test_an_operator_of_numpys():
    array = np.array([1, 0, 1])
    compiled = thunder.jit(lambda x: (x == array) & (array == x))
    assert compiled(torch.ones(3)).tolist() == [True, False, True]


def copy_before(b, k):
    np.copyto(b, k)
    return torch.tensor(b)


def fill_before(b, k):
    b[:] = k
    return torch.from_numpy(b)


def add_behind(b, k):
    t = torch.from_numpy(b)  # shares the memory
    b += k
    return t * 1


def through_a_view(b, k):
    b[:2] += k
    return torch.as_tensor(b.reshape(3, 1))


def a_view_behind(b, k):
    t = torch.as_tensor(b[1:])
    b.reshape(3, 1)[2] = k
    return t.sum()


def between(b, k):
    first = torch.tensor(b)
    b += k
    return first + torch.tensor(b)


def restored(b, k):
    b[int(k)] = 1
    t = torch.from_numpy(b).clone()
    b.fill(0)
    return t


def twice(b, k):
    np.multiply(np.arange(3, dtype=np.float32), k, out=b)
    first = torch.tensor(b)
    np.add(np.arange(3, dtype=np.float32), 1, out=b)
    return first + torch.tensor(b)


def by(make):
    def write(b, k):
        b[0] += k
        return make(b)

    return write


WAYS = [torch.Tensor, torch.FloatTensor, torch.from_dlpack, lambda b: torch.ones(1).new_tensor(data=b)]


@pytest.mark.filterwarnings("ignore:(?s).*runs by eager PyTorch:UserWarning")
@pytest.mark.parametrize("write", [
    copy_before, fill_before, add_behind, through_a_view, a_view_behind, between, restored, twice, *map(by, WAYS),
])  # fmt: skip
def test_an_array_that_the_program_writes_to(write):
    arrays = np.zeros(3, np.float32), np.zeros(3, np.float32)
    compiled, x = thunder.jit(lambda x, k: x + write(arrays[0], k)), torch.ones(3)
    for k in (1.0, 2.0, 2.0, 0.0):
        expected = x + write(arrays[1], k)
        torch.testing.assert_close(compiled(x, k), expected, rtol=0, atol=0)
        assert arrays[0].tolist() == arrays[1].tolist()


def test_numpys_frombuffer_reads_what_lies_there():
    memory = bytearray(np.ones(3, np.float32).tobytes())
    compiled = thunder.jit(lambda x: x + float(np.frombuffer(memory, np.float32)[0]))
    for value in (1, 2, 3):
        memory[:] = np.full(3, value, np.float32).tobytes()
        assert compiled(torch.zeros(1)).item() == value


def test_an_array_that_the_program_writes_to_apart_from_tensors():
    buffer, table = np.zeros(3, np.float32), np.ones(3, np.float32)

    def f(x):
        buffer[:] += 1
        return x + torch.tensor(table) + float(buffer[0])

    compiled = thunder.jit(f)
    for i in range(3):
        assert compiled(torch.zeros(3)).tolist() == [2.0 + i] * 3
    assert "writes to" not in str(thunder.compile_stats(compiled).eager_calls)
