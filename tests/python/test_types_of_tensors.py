"""What a function asks of the types of its tensors is what eager answers."""

import pytest
import torch
from torch import nn

import thunder


def by_is(x):
    return x + 1 if type(x) is torch.Tensor else x - 1


def by_equality(x):
    return x * (2 if type(x * 1) in (nn.Parameter, torch.Tensor) else 3)


def by_class(x):
    return x + (1 if x.__class__ is torch.Tensor else 2)


def by_table(x):
    return x * {torch.Tensor: 2, nn.Parameter: 5}.get(type(x), 3)


def by_name(x):
    return x + len(type(x.relu()).__name__) + len(x.__class__.__name__)


def by_instance(x):
    return x + (1 if isinstance(x, torch.Tensor) and isinstance(x * 2, (nn.Parameter, torch.Tensor)) else 2)


@pytest.mark.parametrize("f", [by_is, by_equality, by_class, by_table, by_name, by_instance])
@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 5), (0, 4)], ids=str)
def test_functions(f, shape):
    compiled = thunder.jit(f)
    for _ in range(2):
        x = torch.randn(shape, requires_grad=True)
        y, z = compiled(x), f(x)
        assert torch.equal(y, z) and type(y) is torch.Tensor
        assert torch.equal(torch.autograd.grad(y.sum(), x)[0], torch.autograd.grad(z.sum(), x)[0])
    assert thunder.cache_misses(compiled) == 1


def test_modules():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.register_buffer("shift", torch.ones(3))

        def forward(self, x):
            kinds = [type(t) for t in (x, x * self.weight, self.weight, self.shift)]
            return x * self.weight + self.shift * sum(k is torch.Tensor for k in kinds) + 10 * (nn.Parameter in kinds)

    module, x = Scale(), torch.randn(4, 3)
    assert torch.equal(thunder.jit(module)(x), module(x))


DTYPES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu float16 bfloat16 float32 float64 complex32 complex64 complex128"
)


@pytest.mark.parametrize("name", DTYPES.split())
def test_a_dtype_is_the_same_on_both_sides(name):
    dtype = getattr(torch, name)
    f = thunder.jit(lambda x: (torch.empty_like(x), x.dtype))
    made, read = f(torch.empty(2, dtype=dtype))
    assert made.dtype == read == dtype
    assert thunder.compile_stats(f)["cache_misses"] == 1
