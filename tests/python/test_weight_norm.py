"""torch._weight_norm, and the modules of torch.nn.utils.weight_norm, which call it before each forward."""

import copy
import warnings

import pytest
import torch
from devices import DEVICE
from torch.testing import assert_close

import thunder

SHAPES = [((8, 16), 0), ((8, 16), 1), ((5, 3), -1), ((1, 1), 0), ((6,), 0)]
SHAPES += [((7, 3, 5), dim) for dim in (0, 1, 2, -1)]


def lengths(v, dim):
    return torch.norm_except_dim(v, 2, dim)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape, dim", SHAPES, ids=str)
def test_values_and_gradients(shape, dim, dtype):
    v = torch.randn(shape, dtype=torch.float64)
    g = torch.rand_like(lengths(v, dim)) + 0.5
    results = []
    for fn, t in ((thunder.jit(lambda v, g: torch._weight_norm(v, g, dim)), dtype), (None, torch.float64)):
        a, b = (x.to(DEVICE, dtype).to(t).requires_grad_() for x in (v, g))
        y = fn(a, b) if fn else a * (b / lengths(a, dim))
        (y * torch.linspace(-1, 2, y.numel(), dtype=t, device=DEVICE).view(shape)).sum().backward()
        results.append([x.to(dtype) for x in (y.detach(), a.grad, b.grad)])
    tolerance = {torch.bfloat16: {"rtol": 0.03, "atol": 0.03}, torch.float16: {"rtol": 4e-3, "atol": 4e-3}}
    assert_close(*results, **tolerance.get(dtype, {}))
    eager = torch._weight_norm(v.to(DEVICE, dtype), g.to(DEVICE, dtype), dim)
    assert_close(results[0][0], eager)


def test_a_dimension_that_is_none():
    with pytest.raises(IndexError):
        thunder.jit(lambda v, g: torch._weight_norm(v, g, 2))(torch.randn(3, 4), torch.ones(3, 1))


@pytest.mark.parametrize("dim", [0, 1, None])
def test_modules(dim):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        eager = torch.nn.utils.weight_norm(torch.nn.Linear(6, 5), dim=dim).to(DEVICE)
        module = torch.nn.Linear(6, 5).to(DEVICE)
        module = torch.nn.utils.weight_norm(module, dim=dim)
    module.load_state_dict(copy.deepcopy(eager.state_dict()))
    compiled = thunder.jit(module)
    for n in (4, 1, 4):
        x = torch.randn(n, 6, device=DEVICE)
        assert_close(compiled(x), eager(x))
        compiled(x).sin().sum().backward()
        eager(x).sin().sum().backward()
    assert_close([p.grad for p in module.parameters()], [p.grad for p in eager.parameters()])
    calls = thunder.compile_stats(compiled)["eager_calls"]
    assert not any("weight_norm" in str(name) for name in calls)


def test_a_varying_size():
    compiled = thunder.jit(lambda v, g: torch._weight_norm(v, g, 0) * 2, cache="symbolic values")
    for n in (8, 5, 13):
        v, g = torch.randn(n, 7, device=DEVICE), torch.rand(n, 1, device=DEVICE)
        assert_close(compiled(v, g), torch._weight_norm(v, g, 0) * 2)
