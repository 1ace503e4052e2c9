"""Sums, and what is made of them, are at least as accurate as eager's, in every direction and at every size.

`python benchmarks/accuracy.py` prints the table for sizes up to 2^30.
"""

import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE
from short_run import taken

import thunder

pytestmark = pytest.mark.fuser
DATA = {
    "positive": lambda shape, g: torch.rand(shape, generator=g),
    "constant": lambda shape, g: torch.full(shape, 0.1),
    "cancelling": lambda shape, g: torch.randn(shape, generator=g),
    "wide": lambda shape, g: torch.randn(shape, generator=g) * 10 ** (torch.rand(shape, generator=g) * 12 - 6),
}
REDUCTIONS = {
    "sum": lambda x, *dim: (x * 1.0).sum(*dim),
    "mean": lambda x, *dim: (x * 1.0).mean(*dim),
    "norm": lambda x, *dim: torch.linalg.vector_norm(x * 1.0, dim=dim or None),
    "variance": lambda x, *dim: (x * 1.0).var(*dim),
    "logsumexp": lambda x, *dim: torch.logsumexp(x * 1.0, dim or tuple(range(x.ndim))),
}
# What an error is measured by: of a sum that cancels, by what is added up.
SCALES = {
    **REDUCTIONS,
    "sum": lambda x, *dim: x.abs().sum(*dim),
    "mean": lambda x, *dim: x.abs().mean(*dim),
    "variance": lambda x, *dim: (x * x).mean(*dim),
    "logsumexp": lambda x, *dim: torch.logsumexp(x, dim or tuple(range(x.ndim))).abs() + 1,
}


def error(got, want):
    return (got.double() - want).abs()


@pytest.mark.parametrize("shape", [(2**20,), (3, 2**18 + 5), (2**17 + 3, 4), (1000, 1000), (2**13, 1, 65)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("data", DATA)
def test_accuracy(data, reduction, shape):
    if not taken(f"{data} {reduction} {shape}", 2):
        pytest.skip("`make test-all` runs it")
    x = DATA[data](shape, torch.Generator().manual_seed(0)).to(DEVICE)
    if reduction == "logsumexp":
        x = x.clamp(-80, 80)
    f = REDUCTIONS[reduction]
    for dim in [(), (0,), (-1,)][: x.ndim + 1]:
        want = f(x.double(), *dim)
        scale = SCALES[reduction](x.double(), *dim)
        eager = (error(f(x, *dim), want) / scale).max()
        for numerics in ("fused", "eager"):
            got = (error(thunder.jit(lambda x, dim=dim: f(x, *dim), numerics=numerics)(x), want) / scale).max()
            assert got <= max(2 * eager, 4 * torch.finfo(torch.float32).eps), (dim, got, eager)


def test_fraction_of_positives():
    ones = torch.ones(2**25 + 4, 2, dtype=torch.int8, device=DEVICE)
    assert thunder.jit(lambda x: (x > 0).float().mean(0))(ones).tolist() == [1.0, 1.0]
    assert thunder.jit(lambda x: (x > 0).float().sum(0))(ones).tolist() == [2.0**25 + 4] * 2


def test_losses_of_images():
    g = torch.Generator().manual_seed(0)
    a, b = (torch.rand(8, 3, 256, 256, generator=g).to(DEVICE) for _ in range(2))
    for loss in (F.mse_loss, F.l1_loss, F.smooth_l1_loss):
        want = loss(a.double(), b.double())
        got, eager = thunder.jit(loss)(a, b), loss(a, b)
        assert error(got, want) <= max(2 * error(eager, want), 4e-7 * want)


def test_infinite_sums():
    x = torch.ones(40000, device=DEVICE)
    f = thunder.jit(lambda x: (x * 1.0).sum())
    assert f(x.index_fill(0, torch.tensor([39000], device=DEVICE), torch.inf)) == torch.inf
    assert f(x.index_fill(0, torch.tensor([0], device=DEVICE), -torch.inf)) == -torch.inf
    assert f(x.index_fill(0, torch.tensor([0], device=DEVICE), torch.nan)).isnan()
    columns = thunder.jit(lambda x: (x * 1.0).sum(0))
    y = torch.ones(5000, 3, device=DEVICE)
    y[100, 1], y[4999, 2] = torch.inf, torch.nan
    got = columns(y)
    assert got[0] == 5000 and got[1] == torch.inf and got[2].isnan()
