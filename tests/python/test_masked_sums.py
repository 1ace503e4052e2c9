"""Reductions of products with masks that are broadcast over some dimensions, with gradients, against float64."""

import pytest
import torch
from devices import DEVICE

import thunder

FUNCTIONS = {
    "mean": lambda x, m: (x * m).sum() / m.sum().clamp(min=1),
    "squares": lambda x, m: ((x - m.to(x.dtype)) ** 2).sum(),
    "of samples": lambda x, m: (x * m).flatten(1).sum(1),
    "pooled": lambda x, m: (x * m).sum(1) / (m.sum() + 1),
    "largest": lambda x, m: (x * m).amax((-1, -2)),
    "smallest of all": lambda x, m: torch.where(m.bool(), x, 100.0).amin(),
    "loss": lambda x, m: (torch.nn.functional.softplus(x) * m).mean(),
}
SHAPES = [  # of x and m
    ((16, 33, 96), (16, 33, 1)),
    ((16, 32, 64), (32, 64)),
    ((5, 40, 128), (5, 1, 1)),
    ((8, 3, 32, 20), (8, 1, 32, 20)),
    ((4, 50, 9, 7), (50, 1, 1)),
    ((64, 1000), (1000,)),
    ((64, 1, 4096), (64, 1, 4096)),
    ((70, 65, 3), (70, 65, 1)),
    ((0, 4, 4), (4, 1)),
]


def data(shape, dtype, of_mask=False):
    generator = torch.Generator().manual_seed(len(shape))
    values = torch.rand(shape, generator=generator)
    return (values > 0.3).to(DEVICE, dtype) if of_mask else (values - 0.4).to(DEVICE, dtype)


def results(f, x, m):
    x = x.detach().requires_grad_()
    y = f(x, m)
    y.sum().backward()
    return y.detach(), x.grad


@pytest.mark.parametrize("dtype, mask", [(torch.float32, torch.bool), (torch.bfloat16, None)], ids=["f32", "bf16"])
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_as_in_float64(f, dtype, mask):
    compiled = thunder.jit(f)
    for shape, of_mask in SHAPES:
        x, m = data(shape, dtype), data(of_mask, mask or dtype, of_mask=True)
        if 0 in shape and f in (FUNCTIONS["largest"], FUNCTIONS["smallest of all"]):
            continue  # eager refuses
        exact = results(f, x.double(), m if m.dtype == torch.bool else m.double())
        eager = results(f, x, m)
        for got, theirs, want in zip(results(compiled, x, m), eager, exact, strict=True):
            assert got.dtype == theirs.dtype and got.shape == theirs.shape
            if want.numel() == 0 or want.isnan().any():
                continue
            least = torch.finfo(dtype).eps * want.abs().max()
            assert (got - want).abs().max() <= 2 * (theirs - want).abs().max() + least, (shape, of_mask)


def test_the_number_of_threads_does_not_matter():
    """Rows are divided among threads, and each is one thread's."""
    before = torch.get_num_threads()
    x, m = data((64, 40, 128), torch.float32), data((40, 1), torch.float32, of_mask=True)
    compiled = thunder.jit(FUNCTIONS["mean"])
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(compiled(x, m).item())
    finally:
        torch.set_num_threads(before)
    assert len(set(results)) == 1
