"""Writes through views of NumPy arrays that a compiled function makes itself."""

import numpy as np
import pytest
import torch

import thunder


def slice_of(x):
    m = np.zeros(4)
    v = m[:2]
    v[0] = 1
    return torch.tensor(m) * x


def transposed_and_memoryview(x):
    m = np.zeros((2, 2))
    m.T[0][1] = 3
    memoryview(m)[0, 0] = 2
    return torch.from_numpy(m) + x


def flat(x):
    m = np.zeros(4)
    m[:2].flat[0::3] = 1
    return torch.as_tensor(m) * x


PROGRAMS = {
    "slice": slice_of,
    "transposed, memoryview": transposed_and_memoryview,
    "flat": flat,
    "eye": lambda x: x * torch.from_numpy(np.eye(2, dtype=np.float32)),
    "diag": lambda x: torch.tensor(np.diag([1.0, 2.0])) * x,
    "identity": lambda x: x.new_tensor(np.identity(2)) * x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_seen(name):
    f, compiled = PROGRAMS[name], thunder.jit(PROGRAMS[name])
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(4) if name in ("slice", "flat") else torch.randn(2, 2)
        assert torch.equal(compiled(x), f(x))
    assert thunder.cache_misses(compiled) == 1


def test_views_of_arrays_from_outside_are_the_callers():
    m = np.zeros(4)

    def f(x):
        v = m[:2]
        v[0] += 1
        return x * 2

    compiled = thunder.jit(f)
    for i in range(3):
        assert compiled(torch.ones(1)) == 2
        assert m[0] == i + 1
