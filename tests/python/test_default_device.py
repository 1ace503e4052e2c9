"""What compiled programs make for themselves does not depend on the user's default device."""

import pytest
import torch
from torch import nn

import thunder
from thunder.transforms import Float8


def special(x):
    return torch.special.i0e(x)  # has no record: PyTorch's autograd keeps a graph of the call


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(8, 16, num_layers=2, bidirectional=True)

    def forward(self, x):
        return self.rnn(x)[0]


def in_float8():
    model = nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 16))
    return thunder.jit(model, transforms=[Float8(scaling="delayed", filter="*")]), model


@pytest.mark.parametrize("make", [
    lambda: (thunder.jit(special), special, (8,)),
    lambda: (thunder.jit(m := Recurrent(nn.LSTM)), m, (5, 3, 8)),
    lambda: (thunder.jit(m := Recurrent(nn.GRU)), m, (5, 3, 8)),
    lambda: (*in_float8(), (16, 32)),
], ids=["graphs of PyTorch's", "LSTM", "GRU", "float8"])  # fmt: skip
def test_training_under_a_default_device(make):
    compiled, model, shape = make()
    given = torch.randn(shape)
    cotangent = torch.randn_like(model(given))

    def step(run):
        x = given.clone().requires_grad_()
        y = run(x)
        y.backward(cotangent)
        return y, x.grad

    with torch.device("meta"):
        for _ in range(3):
            mine = step(compiled)
    within = 0.2 if isinstance(model, nn.Sequential) else 1e-5  # float8 has two or three digits
    for a, b in zip(mine, step(model), strict=True):
        assert (a - b).norm() <= within * b.norm()
