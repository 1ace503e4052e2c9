"""Reductions whose elements are chosen by truth values in memory, beside eager's."""

import pytest
import torch
from devices import DEVICE
from torch.testing import assert_close

import thunder

INF = float("inf")
FUNCTIONS = {
    "softmax": lambda x, m: x.masked_fill(m, -INF).softmax(-1),
    "log_softmax": lambda x, m: x.masked_fill(m, -50.0).log_softmax(-1),
    "sum": lambda x, m: torch.where(m, x, 0).sum(-1),
    "sum of columns": lambda x, m: torch.where(m, x, 0).sum(-2),
    "mean by count": lambda x, m: (x * m).sum(-1) / m.sum(-1).clamp(min=1),
    "largest": lambda x, m: x.masked_fill(m, -INF).amax(-1),
    "count": lambda x, m: ((x > 0) & m).sum(-1),
    "two masks": lambda x, m: x.masked_fill(m, 0.0).masked_fill(~m.flip(-1), -3.0).softmax(-1),
    "layer norm": lambda x, m: torch.nn.functional.layer_norm(x.masked_fill(m, 0.5), x.shape[-1:]) * m,
}
SHAPES = [(4, 3, 64, 64), (2, 33, 65), (5, 1, 7), (3, 1), (1, 200), (2, 3, 1000), (4, 0)]


def data(shape, dtype):
    generator = torch.Generator().manual_seed(0)
    x, m = torch.randn(shape, generator=generator), torch.rand(shape[-2:], generator=generator) > 0.6
    m[..., :1] = False  # a row of which everything is masked is NaN in eager, too, and has no gradient
    return x.to(DEVICE, dtype), m.to(DEVICE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=["f32", "bf16", "f64"])
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_as_eager(f, dtype):
    near = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
    for shape in SHAPES:
        x, m = data(shape, dtype)
        try:
            expected = f(x, m)
        except Exception as error:  # the largest of nothing
            with pytest.raises(type(error)):
                thunder.jit(f)(x, m)
            continue
        assert_close(thunder.jit(f)(x, m), expected, equal_nan=True, **near)


@pytest.mark.parametrize("name", ["softmax", "sum", "sum of columns", "two masks", "layer norm"])
def test_gradients_as_eagers(name):
    f = FUNCTIONS[name]
    for shape in SHAPES[:-1]:
        results = []
        for g in (f, thunder.jit(f)):
            x, m = data(shape, torch.float32)
            x.requires_grad_()
            out = g(x, m)
            out.backward(torch.linspace(-1, 1, out.numel(), device=DEVICE).view(out.shape))
            results.append(x.grad)
        assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)
