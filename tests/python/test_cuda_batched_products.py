"""Batches of small matrix products on a GPU, against float64 and twice eager's own error."""

import itertools

import pytest
import torch
from fusion_checks import check, error
from product_programs import PROGRAMS, Windows

import thunder

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("error:.*kernel cannot be compiled:RuntimeWarning")]

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
SLACK = 1e-5


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, device="cuda", dtype=torch.float64).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("rows", "size"), [(49, 32), (64, 64), (197, 64), (30, 20), (1, 32), (129, 80)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_hand_written_attention(name, rows, size, dtype):
    compiled = check(PROGRAMS[name], *(randn(256, rows, 3, size, dtype=dtype) for _ in "qkv"), slack=SLACK)
    # PyTorch's own einsum copies its operands; whether a product is a "bmm" or a "matmul" depends on its layouts.
    assert not any("einsum" in c.name for c in thunder.last_traces(compiled)[-1].calls)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_products_of_any_layout(order, dtype):
    """[batch, heads, rows, columns] as they lie in memory in each order; one operand is broadcast."""
    sizes, turned = (64, 3, 49, 40), (1, 3, 40, 57)
    back = [order.index(i) for i in range(4)]
    x = randn(*(sizes[i] for i in order), dtype=dtype)
    y = randn(*(turned[i] for i in order), dtype=dtype)
    check(lambda x, y: (x.permute(back) * 2) @ y.permute(back).exp(), x, y, slack=SLACK, fused=False)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("rows", [49, 64, 30])
@pytest.mark.parametrize("autocast", [True, False])
def test_windows(rows, masked, autocast):
    torch.manual_seed(0)
    model = Windows(rows, masked=masked).cuda()
    x = torch.randn(1024, rows, 96, device="cuda", requires_grad=True)
    cotangent = torch.randn_like(x)

    def step(f, x, cotangent):
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast and x.dtype == torch.float32):
            y = f(x)
        return [y, *torch.autograd.grad(y, [x, *model.parameters()], cotangent.to(y))]

    compiled = thunder.jit(model)
    mine, eager = step(compiled, x, cotangent), step(model, x, cotangent)
    model.double()
    exact = step(model, x.detach().double().requires_grad_(), cotangent.double())
    names = ["out", "x", *(n for n, _ in model.named_parameters())]
    for name, m, e, want in zip(names, mine, eager, exact, strict=True):
        assert m.dtype == e.dtype and m.stride() == e.stride()
        assert error(m, want) <= 2 * error(e, want) + 1e-5, (name, error(m, want), error(e, want))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [8, 24, 49, 56, 64, 96, 100, 128, 136])
def test_short_rows(columns, dtype):
    """Several rows share a warp, also where the last warp has some left over."""

    def f(x, w):
        y = torch.softmax(x * 2, -1)
        return y, (y - y.mean(-1, keepdim=True)) * w, torch.nn.functional.layer_norm(x, (columns,), w)

    for rows in (1, 7, 1000, 1001):
        check(f, randn(rows, columns, dtype=dtype), randn(columns, dtype=dtype), slack=SLACK)


def test_weights_that_are_returned():
    def f(q, k, v):
        weights = torch.softmax(q @ k.mT, -1)
        return weights @ v, weights

    tensors = [randn(512, 4, 49, 32, dtype=torch.bfloat16) for _ in "qkv"]
    check(f, *tensors, slack=SLACK)
