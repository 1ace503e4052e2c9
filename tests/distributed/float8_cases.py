"""Cases of float8 layers in distributed models, which run on each process."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from training import whole, wrap

import thunder
from thunder.transforms import Float8


def gradients(group, strategy):
    """Of the same data on all processes: those of one process alone, whose scales they share."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 48, bias=False), nn.Linear(48, 16))
    alone = thunder.jit(copy.deepcopy(module), transforms=[Float8(filter=["0", "2"])])
    model = thunder.jit(wrap(module, group, strategy, "LAYER"), transforms=[Float8(filter=["0", "2"])])
    x = torch.randn(16, 32)
    for _ in range(2):
        for m in (alone, model):
            m.zero_grad()
            m(x).square().sum().backward()
    assert thunder.compile_stats(model)["float8"]["layers"] == ["0", "2"]
    for (name, a), b in zip(model.named_parameters(), alone.parameters(), strict=True):
        assert_close(whole(a.grad), b.grad, msg=name)


def delayed_is_refused(group, strategy):
    module = nn.Sequential(nn.Linear(32, 64), nn.Linear(64, 16))
    model = thunder.jit(wrap(module, group, strategy, "LAYER"), transforms=[Float8(scaling="delayed", filter="*")])
    with pytest.raises(NotImplementedError, match=r"\[float8\] expected scaling='dynamic' for a distributed module"):
        model(torch.randn(16, 32))
