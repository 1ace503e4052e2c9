"""Compiled modules within another compiled function: reads of them are guarded, writes are written."""

import copy

import pytest
import torch
from torch import nn

import thunder


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.dropout = nn.Linear(4, 4), nn.Dropout(0.5)
        self.calls, self.scale, self.log = 0, 1.0, []

    def forward(self, x):
        self.calls += 1
        return self.dropout(self.layer(x)) * self.scale

    @property
    def twice(self):
        return self.scale * 2

    def encode(self, x):
        self.calls += 1
        self.log.append(len(x))
        return self(x) * 2

    def with_scale(self, scale):
        self.scale = scale
        return self


def sets(module, x):
    module.calls = module.calls + 1
    return x * module.calls


def adds(module, x):
    module.scale += 1
    return module(x)


def sets_and_deletes(module, x):
    module.more = 3
    y = x * module.more
    del module.more
    return y


def evaluates(module, x):
    training = module.training
    y = module.eval()(x)
    module.train(training)
    return y


USES = {
    "an attribute": lambda module, x: x * module.scale,
    "training": lambda module, x: x * module.training,
    "a property": lambda module, x: x * module.twice,
    "a call": lambda module, x: module(x),
    "forward": lambda module, x: module.forward(x),
    "a method": lambda module, x: module.encode(x),
    "a method that returns the module": lambda module, x: module.with_scale(3.0)(x),
    "a child": lambda module, x: module.layer(x),
    "parameters": lambda module, x: sum(p.square().sum() for p in module.parameters()) * x,
    "state_dict": lambda module, x: x * module.state_dict()["layer.bias"].sum(),
    "hasattr": lambda module, x: x * hasattr(module, "no_such"),
    "isinstance": lambda module, x: x * isinstance(module, nn.Module),
    "sets": sets,
    "adds": adds,
    "sets and deletes": sets_and_deletes,
    "evaluates": evaluates,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("sizes", [[2], [5, 1, 8]])
def test_a_compiled_module_within_a_function(use, sizes):
    reference = Counting()
    module = copy.deepcopy(reference)
    compiled_module = thunder.jit(module)
    f = thunder.jit(lambda x: USES[use](compiled_module, x))
    for i in range(6):
        for m in (module, reference):
            m.scale = 1.0 + i // 3
            m.train(i % 2 == 1)
            with torch.no_grad():
                m.layer.weight.add_(0.1)
        x, runs = torch.randn(sizes[i % len(sizes)], 4), []
        for call in (f, lambda x: USES[use](reference, x)):
            torch.manual_seed(i)
            t = x.clone().requires_grad_()
            y = call(t)
            y.sum().backward()
            runs.append([y, t.grad])
        torch.testing.assert_close(*runs)
        for name in ("calls", "log", "scale", "training"):
            assert getattr(module, name) == getattr(reference, name), name
        assert set(module.__dict__) == set(reference.__dict__)
    for p, q in zip(module.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    assert not thunder.compile_stats(f).eager_calls
