"""Inputs that share memory with each other, and writes that autograd must not see."""

import contextlib

import pytest
import torch

import thunder


def _overlapping(base):
    return base[:6], base[2:]


@pytest.mark.parametrize("views", [_overlapping, lambda b: (b, b[::2][:4]), lambda b: (b.view(2, 4), b.view(4, 2).t())])
def test_write_to_overlapping_inputs(views):
    def f(a, b):
        a.mul_(2)
        b.add_(1)
        return a.sum() + b.sum()

    mine, theirs = torch.arange(8.0), torch.arange(8.0)
    compiled = thunder.jit(f)
    for _ in range(2):
        assert torch.equal(compiled(*views(mine)), f(*views(theirs)))
        assert torch.equal(mine, theirs)
    assert thunder.cache_misses(compiled) == 1


def test_other_places_in_the_memory_compile_again():
    def f(a, b):
        a.mul_(2)
        return a + b

    mine, theirs = torch.arange(10.0), torch.arange(10.0)
    compiled = thunder.jit(f)
    for start in (0, 1, 3):
        views = lambda t: (t[start : start + 4], t[2:6])  # noqa: B023, E731
        assert torch.equal(compiled(*views(mine)), f(*views(theirs)))
        assert torch.equal(mine, theirs)


def test_write_where_gradients_flow_is_left_to_eager():
    compiled = thunder.jit(lambda a, b: a.mul_(2) + b)
    results = []
    for f in (compiled, lambda a, b: a.mul_(2) + b):
        base = torch.arange(4.0, requires_grad=True) * 1
        with pytest.warns(UserWarning, match="shares memory") if f is compiled else contextlib.nullcontext():
            results.append(f(base[:3], base[1:]))
    assert torch.equal(*results)


def test_parameter_written_under_no_grad():
    w = torch.nn.Parameter(torch.ones(3))
    version = w._version

    def step(x):
        with torch.no_grad():
            w.sub_(0.5 * x)
        return (w * x).sum()

    loss = thunder.jit(step)(torch.ones(3))
    assert torch.equal(w.detach(), torch.full((3,), 0.5))
    assert w.is_leaf and w.requires_grad and w._version > version
    loss.backward()
    assert torch.equal(w.grad, torch.ones(3))
