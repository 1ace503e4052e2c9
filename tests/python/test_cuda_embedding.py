"""The gradient of an embedding's weight on a GPU: who takes it, and its sums against float64."""

import pytest
import torch
import torch.nn.functional as F
from fusion_checks import check

import thunder

pytestmark = pytest.mark.gpu

ROWS = 50


def taken(compiled):
    return any(c.name == "embedding_backward" for c in thunder.last_backward_traces(compiled)[-1].calls)


def ids_of(kind, tokens):
    if kind == "random":
        return torch.randint(0, ROWS, (tokens,))
    if kind == "one":
        return torch.full((tokens,), ROWS - 1)
    if kind == "runs":  # some rows lie in one chunk of the sorted tokens, some begin or end at its border, some go over
        return torch.arange(tokens) // 16 % ROWS
    return torch.arange(tokens) % 3  # few long runs, interleaved


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("cols", [1, 7, 64, 2048, 4104])
@pytest.mark.parametrize("tokens", [1, 16, 33, 3000])
def test_gradient(tokens, cols, dtype):
    for kind in ("random", "one", "runs", "few"):
        ids = ids_of(kind, tokens).to("cuda")
        weight = torch.randn(ROWS, cols, device="cuda", dtype=dtype, requires_grad=True)
        # torch.embedding sums 16-bit gradients of long runs in parts, which are rounded
        assert taken(check(lambda w, i=ids: F.embedding(i, w) * 1, weight, fused=False)), kind


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_padding(dtype):
    ids = torch.tensor([[0, 3, 3], [7, 0, 1]], device="cuda", dtype=dtype)
    weight = torch.randn(9, 24, device="cuda", requires_grad=True)
    compiled = check(lambda w: F.embedding(ids, w, padding_idx=-6) * 1, weight, fused=False)
    assert taken(compiled)
    weight.grad = None
    compiled(weight).sum().backward()
    assert not weight.grad[3].any() and weight.grad[0].eq(2).all()


def test_the_largest_and_what_is_left_to_pytorch():
    weight = torch.randn(ROWS, 8, device="cuda", requires_grad=True)
    for tokens, expected in ((32768, True), (32769, False)):
        ids = torch.randint(0, ROWS, (tokens,), device="cuda")
        assert taken(check(lambda w, i=ids: F.embedding(i, w) * 1, weight, fused=False)) == expected
    ids = torch.randint(0, ROWS, (8,), device="cuda")
    assert not taken(check(lambda w: F.embedding(ids, w, scale_grad_by_freq=True) * 1, weight, fused=False))
    double = weight.detach().double().requires_grad_()
    assert not taken(check(lambda w: F.embedding(ids, w) * 1, double, fused=False))


def test_the_same_each_time():
    ids = torch.randint(0, 5, (4096,), device="cuda")
    weight = torch.randn(5, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    compiled = thunder.jit(lambda w: F.embedding(ids, w) * 1)
    g = torch.randn(4096, 512, device="cuda", dtype=torch.bfloat16)
    grads = [torch.autograd.grad(compiled(weight), weight, g)[0] for _ in range(10)]
    assert all(torch.equal(grads[0], other) for other in grads)
