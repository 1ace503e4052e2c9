"""Products of a matrix and one row on a GPU: sums of rows in fused kernels, as exact as the library's products."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import thunder

pytestmark = pytest.mark.gpu

TYPES = [torch.bfloat16, torch.float16, torch.float32]


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda", dtype=dtype)


def check(fn, *args):
    """As near to float64 as eager's product, and a sum in the program."""
    compiled = thunder.jit(fn)
    got, wanted = compiled(*args), fn(*(a.double() for a in args))
    eager = fn(*args)
    assert got.dtype == eager.dtype and got.shape == eager.shape and got.stride() == eager.stride()
    limit = 1.5 * (eager - wanted).norm() + 1e-6 * wanted.norm()
    assert (got - wanted).norm() <= limit
    return str(thunder.last_traces(compiled)[-1])


def is_fused(trace):
    return "linear" not in trace and "matmul" not in trace


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "rows,terms", [(512, 2048), (2048, 512), (1000, 777), (300, 1), (50257, 768), (128, 64), (1, 70000)]
)
def test_linear(rows, terms, dtype):
    w, b = random(rows, terms, dtype=dtype), random(rows, dtype=dtype)
    for x in (random(terms, dtype=dtype), random(1, terms, dtype=dtype), random(1, 1, terms, dtype=dtype)):
        trace = check(F.linear, x, w)
        small = rows * terms < 1 << 16 or terms < 64
        assert is_fused(trace) != small
        assert is_fused(check(F.linear, x, w, b)) != small


@pytest.mark.parametrize("dtype", TYPES)
def test_products_with_the_matrix_on_either_side(dtype):
    w = random(700, 512, dtype=dtype)
    assert is_fused(check(lambda x, w: x @ w.mT, random(1, 512, dtype=dtype), w))
    assert is_fused(check(lambda x, w: w @ x, random(512, dtype=dtype), w))
    assert is_fused(check(lambda x, w: w @ x, random(512, 1, dtype=dtype), w))
    assert is_fused(check(torch.mv, w, random(512, dtype=dtype)))


def test_parts_of_larger_tensors():
    w, x = random(600, 1030)[:, 5:1029], random(3, 1024)[1:2]
    assert is_fused(check(F.linear, x, w))
    assert is_fused(check(F.linear, x, random(2048, 1024)[::2]))


def test_several_rows_are_the_librarys():
    assert not is_fused(check(F.linear, random(2, 512), random(512, 512)))


def test_numerics_of_eager():
    x, w = random(1, 512), random(512, 512)
    compiled = thunder.jit(F.linear, numerics="eager")
    assert torch.equal(compiled(x, w), F.linear(x, w))


class Block(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradients(dtype):
    """Training on one sample."""
    module = Block().to("cuda", dtype)
    exact = Block().to("cuda", torch.float64)
    exact.load_state_dict(module.state_dict())
    x = random(1, 512, dtype=dtype)
    module_x, exact_x = x.clone().requires_grad_(), x.double().requires_grad_()
    thunder.jit(module)(module_x).square().sum().backward()
    exact(exact_x).square().sum().backward()
    limit = 2e-2 if dtype == torch.bfloat16 else 1e-4
    for a, b in zip([module_x, *module.parameters()], [exact_x, *exact.parameters()], strict=True):
        assert (a.grad - b.grad).norm() <= limit * b.grad.norm()


def test_autocast():
    module = Block().to("cuda")
    x = random(1, 512, dtype=torch.float32)
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        compiled = thunder.jit(module)
        got, wanted = compiled(x), module(x)
    assert is_fused(str(thunder.last_traces(compiled)[-1]))
    assert got.dtype == wanted.dtype
    torch.testing.assert_close(got, wanted, rtol=2e-2, atol=2e-2)
