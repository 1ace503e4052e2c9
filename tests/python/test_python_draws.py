"""Programs that draw random numbers by Python's or NumPy's generators: eager's numbers, and one program for all calls."""

import random
import warnings

import numpy as np
import pytest
import thunder
import torch
from torch import nn


def masks(shape, p, lengths=None):
    """Spans of a tenth of each row, as SpecAugment masks them: interpreted, it is no program's."""
    mask = np.zeros(shape, dtype=bool)
    for i in range(shape[0]):
        length = shape[1] if lengths is None else lengths[i]
        spans = int(p * length / 2 + np.random.rand(1).item())
        starts = np.random.choice(np.arange(length), min(spans, length), replace=False)
        for start in starts:
            mask[i, start : start + 2] = True
    return mask


def in_a_function(x):
    h = x * 2
    h[torch.tensor(masks((x.shape[0], x.shape[1]), 0.4), dtype=torch.bool)] = -1.0
    return h


def in_a_function_by_name(x):
    return torch.where(torch.as_tensor(masks(p=0.4, shape=tuple(x.shape))), x, 0.0)


def of_memory(x):
    return x * torch.from_numpy(masks([x.shape[0], x.shape[1]], 0.5))


def of_lengths(x):
    lengths = (x > -1).sum(-1).clamp(min=1)
    return x.masked_fill(torch.tensor(masks_of_tensor(tuple(x.shape), lengths)), 0.0)


def masks_of_tensor(shape, lengths):
    return masks(shape, 0.5, lengths.tolist())


def a_branch(x):
    return x * 2 if random.random() < 0.5 else x.sin()


def a_float(x):
    share = float(np.random.beta(0.4, 0.4))
    return x * share + x.flip(0) * (1 - share)


def an_int(x):
    return x.roll(random.randint(0, 3), 1)


def a_method_of_a_module_of_python(x):
    return x * random.uniform(-1, 1) + random.gauss(0, 1)


def a_permutation(x):
    return x[torch.from_numpy(np.random.permutation(x.shape[0]))]


def noise(x):
    return x + torch.tensor(np.random.randn(*x.shape).astype(np.float32))


def noise_in_a_function(x):
    return x + torch.tensor(scaled_noise(x.shape[0], x.shape[1], 3.0))


def scaled_noise(rows, columns, scale):
    return (np.random.randn(rows, columns) * scale).astype("float32")


def an_array_alone(x):
    return x + torch.tensor(np.random.randn(x.shape[1]))


def several(x):
    h = in_a_function(x)
    h = h * a_float(h)
    return h + torch.tensor(masks((x.shape[0], x.shape[1]), 0.2)) if random.random() < 0.5 else h


def beside_torch(x):
    h = torch.nn.functional.dropout(x, 0.5)
    h = h * random.random()
    return h + torch.rand(())


def before_a_read_of_torch(x):
    h = x * random.random()
    return h if torch.rand(()) < 0.5 else h + torch.tensor(masks((2, 3), 0.5)).sum()


# The second figure: how many programs are enough for all calls of a size.
KEPT = [
    (in_a_function, 1), (in_a_function_by_name, 1), (of_memory, 1), (of_lengths, 1), (a_branch, 2), (a_float, 1),
    (an_int, 4), (a_method_of_a_module_of_python, 1), (a_permutation, 1), (noise_in_a_function, 1), (an_array_alone, 1),
    (several, 2), (beside_torch, 1), (before_a_read_of_torch, 2),
]  # fmt: skip


def seed(i):
    random.seed(i)
    np.random.seed(i)
    torch.manual_seed(i)


def states():
    return random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist(), torch.rand(3).tolist()


def same_as_eager(eager, jitted, inputs, calls=10):
    for i in range(calls):
        given = inputs(i)
        seed(i)
        expected, generators = eager(*given), states()
        seed(i)
        actual, ours = jitted(*given), states()
        torch.testing.assert_close(actual, expected)
        assert generators == ours, f"the generators of call {i}"


def pairs(shape):
    return lambda i: (torch.randn(shape, generator=torch.Generator().manual_seed(i)),)


@pytest.mark.parametrize("shape", [(4, 16), (3, 7), (1, 1)], ids=str)
@pytest.mark.parametrize(("f", "programs"), KEPT, ids=lambda x: getattr(x, "__name__", ""))
def test_one_program_serves_all_calls(f, programs, shape):
    jitted = thunder.jit(f)
    same_as_eager(f, jitted, pairs(shape))
    assert thunder.cache_misses(jitted) <= programs


@pytest.mark.parametrize(("f", "programs"), KEPT, ids=lambda x: getattr(x, "__name__", ""))
def test_sizes_that_change(f, programs):
    jitted = thunder.jit(f)
    shapes = [(4, 16), (4, 17), (4, 23), (5, 9), (2, 3), (7, 16), (1, 8), (4, 1)]
    same_as_eager(f, jitted, lambda i: pairs(shapes[i % len(shapes)])(i), calls=24)
