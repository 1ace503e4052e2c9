"""Whether what transforms of torch.func give in a compiled function is eager's, and compiled."""

import torch
from eager_checks import eager_calls
from torch import nn
from torch.testing import assert_close
from torch.utils import _pytree as pytree

import thunder


def tensor(*shape, dtype=torch.float64, requires_grad=False, device="cpu"):
    return torch.randn(shape, dtype=dtype, device=device).requires_grad_(requires_grad)


def outer(result, inputs):
    """Gradients of a loss of everything that requires one."""
    found = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not found:
        return []
    total = sum((t * torch.linspace(0.5, 1.5, t.numel(), dtype=t.dtype, device=t.device).view(t.shape)).sum()
                for t in found)
    return torch.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)


def flags(result):
    return [t.requires_grad for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]


def check(fn, *args, wanted=None, runs=3, **tolerance):
    """Results and gradients of several calls are eager's, and none of them was left to eager."""
    leaves = [t for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor) and t.requires_grad]
    wanted = leaves if wanted is None else wanted
    compiled = thunder.jit(fn)
    expected = fn(*args)
    gradients = outer(expected, wanted)
    for _ in range(runs):
        got = compiled(*args)
        assert_close(got, expected, **tolerance)
        assert flags(got) == flags(expected)
        assert_close(outer(got, wanted), gradients, **tolerance)
    assert eager_calls(compiled) == {}
    assert thunder.cache_misses(compiled) == 1
    return compiled


def mlp(*sizes, dtype=torch.float64):
    torch.manual_seed(0)
    layers = []
    for a, b in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1]).to(dtype)
