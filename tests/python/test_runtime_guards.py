"""The first level of guards: a program serves a call exactly if what it was compiled for holds."""

import pytest
import torch
from torch.testing import assert_close

import thunder


def fn(a, b):
    return torch.matmul(a, b)


def compiled_for(*args):
    f = thunder.jit(fn)
    f(*args)
    f(*args)
    assert (thunder.cache_misses(f), thunder.cache_hits(f)) == (1, 1)
    return f


def misses(f, *args):
    """Whether the call needs another program; it must be right in any case."""
    before = thunder.cache_misses(f)
    assert_close(f(*args), fn(*args))
    return thunder.cache_misses(f) - before == 1


def square(dtype=torch.float32):
    return torch.randn(4, 4, dtype=dtype)


def test_other_tensors_of_the_same_metadata_hit():
    f = compiled_for(square(), square())
    assert not misses(f, square(), square())
    assert not misses(f, torch.zeros(4, 4), torch.ones(4, 4))


CHANGES = {
    "dtype": lambda a, b: (a.double(), b.double()),
    "shape": lambda a, b: (a[:3].clone(), b),
    "strides": lambda a, b: (a.t(), b),
    "rank": lambda a, b: (a[None].clone(), b),
    "requires_grad": lambda a, b: (a.clone().requires_grad_(), b),
    "alignment": lambda a, b: (torch.empty(17)[1:].view(4, 4).copy_(a), b),
    "same tensor": lambda a, b: (a, a),
    "same storage": lambda a, b: (a, a.view(4, 4)),
    "order": lambda a, b: (a.clone().requires_grad_(), b.clone().requires_grad_()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_metadata_misses(change):
    a, b = square(), square()
    f = compiled_for(a, b)
    assert misses(f, *CHANGES[change](a, b))
    assert not misses(f, a, b)


def test_how_views_of_one_storage_lie_matters():
    base = torch.randn(16, 4)
    f = compiled_for(base[:4], base[4:8])
    assert not misses(f, base[8:12], base[12:16])
    assert misses(f, base[:4], base[2:6])  # these overlap


def test_conjugate_views_run_eagerly():
    a, b = square(torch.complex64), square(torch.complex64)
    f = compiled_for(a, b)
    assert not misses(f, a.conj(), b)
    assert not misses(f, a.conj().imag, b.real)
    assert sum(thunder.compile_stats(f)["eager_calls"].values()) == 2



STATES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}


@pytest.mark.parametrize("state", STATES)
def test_global_state_misses(state):
    a, b = square().requires_grad_(), square()
    f = compiled_for(a, b)
    with STATES[state]():
        assert misses(f, a, b)
        assert not misses(f, a, b)
    assert not misses(f, a, b)


def test_the_dtype_of_autocast_misses():
    a, b = square(), square()
    f = thunder.jit(fn)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            assert f(a, b).dtype is dtype
    assert thunder.cache_misses(f) == 2


def test_the_default_dtype_misses():
    f = thunder.jit(lambda x: torch.exp(x))
    x = torch.ones(2, dtype=torch.int64)
    assert f(x).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert f(x).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert f(x).dtype is torch.float32


def test_many_tensors_of_which_some_alias():
    # More than the fingerprint keeps in its array.
    def total(tensors):
        return torch.cat(tensors)

    f = thunder.jit(total)
    tensors = [torch.randn(3) for _ in range(100)]
    f(tensors)
    f([t.clone() for t in tensors])
    assert thunder.cache_misses(f) == 1
    for i, j in ((0, 99), (50, 51), (98, 20)):
        aliased = list(tensors)
        aliased[i] = aliased[j]
        assert_close(f(aliased), total(aliased))
        before = thunder.cache_misses(f)
        aliased[i] = aliased[j].view(3)
        assert_close(f(aliased), total(aliased))
        assert thunder.cache_misses(f) == before + 1
    assert thunder.cache_misses(f) == 7


def test_a_failed_call_leaves_the_function_usable():
    f = compiled_for(square(), square())
    with pytest.raises(RuntimeError):
        f(square(), torch.randn(3, 3))
    assert not misses(f, square(), square())
