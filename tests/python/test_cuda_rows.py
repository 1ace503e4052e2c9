"""Sums of rows by an index on a GPU: sizes at which other kernels run, against float64, and CUDA graphs."""

import pytest
import torch
import torch.nn.functional as F
from fusion_checks import check

import thunder
from thunder import prims

pytestmark = pytest.mark.gpu

COUNTED = 16384  # so many numbers are compared with each other, more are sorted
SHORT = 32767  # groups whose numbers are sorted as 16 bits


def index_of(kind, n, groups):
    if kind == "one":
        return torch.full((n,), groups - 1, device="cuda")
    if kind == "runs":  # segments that begin and end where others are cut, and beside it
        return torch.arange(n, device="cuda") // 16 % groups
    if kind == "few":
        return torch.arange(n, device="cuda") % min(3, groups)
    if kind == "skewed":  # a few numbers are most of them
        return torch.rand(n, device="cuda").pow(8).mul(groups).long().clamp(max=groups - 1)
    return torch.randint(0, groups, (n,), device="cuda")


KINDS = ["random", "one", "runs", "few", "skewed"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_group_index(dtype, kind):
    for n in (1, 33, COUNTED, COUNTED + 1, 200_000):
        for groups in (1, 50, SHORT - 1, SHORT, 300_000):
            index = index_of(kind, n, groups).to(dtype)
            order, starts = thunder.jit(lambda i, g=groups: prims.group_index(i, g, False))(index)
            values, expected = index.long().sort(stable=True)
            assert torch.equal(order, expected)
            assert torch.equal(starts, torch.searchsorted(values, torch.arange(groups + 1, device="cuda")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("cols", [1, 7, 64, 264, 2048])
def test_sums(cols, dtype, kind):
    for n in (1, 33, 3000, 40_000):
        for groups in (1, 50, 5000):
            index, x = index_of(kind, n, groups), torch.randn(n, cols, device="cuda").to(dtype)
            order, starts = prims.group_index(index, groups, False)
            compiled = thunder.jit(lambda x, o, s: prims.segment_sum(x, o, s, None, 0, 0, False))
            got = compiled(x, order, starts).double()
            zeros = torch.zeros(groups, cols, device="cuda", dtype=torch.float64)
            want, terms = zeros.index_add(0, index, x.double()), zeros.index_add(0, index, x.double().abs())
            eps = torch.finfo(torch.float32 if dtype.itemsize == 2 else dtype).eps
            bound = torch.finfo(dtype).eps * want.abs() + 32 * eps * terms + 1e-7
            assert ((got - want).abs() <= bound).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_bags_that_are_longer_than_a_part(weighted):
    input = torch.randint(0, 500, (40, 700), device="cuda")
    weight = torch.randn(500, 64, device="cuda", requires_grad=True)
    each = torch.randn(40, 700, device="cuda") if weighted else None
    check(lambda w, e: F.embedding_bag(input, w, mode="sum", per_sample_weights=e), weight, each, fused=False)


def test_the_same_each_time():
    source, target = torch.randint(0, 300, (2, 60_000), device="cuda")
    x = torch.randn(300, 128, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    compiled = thunder.jit(lambda x: torch.zeros_like(x).index_add(0, target, x.index_select(0, source)))
    g = torch.randn_like(x)
    runs = [(y := compiled(x), torch.autograd.grad(y, x, g)[0]) for _ in range(10)]
    assert all(torch.equal(a, b) for run in runs for a, b in zip(run, runs[0], strict=True))


def test_in_cuda_graphs():
    source, target = torch.randint(0, 3000, (2, 60_000), device="cuda")
    x = torch.randn(3000, 64, device="cuda", requires_grad=True)

    def program(x):
        return torch.zeros_like(x).index_add(0, target, x.index_select(0, source)).tanh()

    compiled = thunder.jit(program, transforms=[thunder.transforms.CUDAGraphTransform()])
    for _ in range(4):
        got, want = compiled(x), program(x)
        torch.testing.assert_close(got, want)
        gradients = [torch.autograd.grad(y.sum(), x)[0] for y in (got, want)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-3)


def test_on_another_stream():
    index, x = torch.randint(0, 3000, (40_000,), device="cuda"), torch.randn(40_000, 64, device="cuda")
    compiled = thunder.jit(lambda x: x.new_zeros(3000, 64).index_add(0, index, x))
    compiled(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        got = compiled(x * 2)
    torch.cuda.current_stream().wait_stream(stream)
    torch.testing.assert_close(got, x.new_zeros(3000, 64).index_add(0, index, x * 2))
