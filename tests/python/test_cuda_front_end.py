"""What the front end takes from Python, in programs on the device under test: lengths, numbers, seeds, values."""

import functools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from devices import DEVICE
from torch import nn

import thunder

OWN = torch.Generator(DEVICE)


def randn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def gradients(f, x, *rest):
    x = x.detach().clone().requires_grad_()
    y = f(x, *rest)
    y.float().square().sum().backward()
    return y.detach(), x.grad


CASES = {
    "length": (lambda x, i: x.cos().sum(0) / len(x), lambda i: 0),
    "places": (lambda x, i: x + torch.arange(len(x), device=x.device)[:, None], lambda i: 0),
    "step": (lambda x, i: x * math.exp(-i / 100) * (0.5 + math.cos(math.pi * i / 50)), lambda i: i + 2),
    "float64": (lambda x, s: x.sin() * s, lambda i: np.float64(0.25 + i)),
    "slice": (lambda x, s: x[s] * 2, lambda i: slice(0, 2)),
    "partial": (lambda x, h: h(x), lambda i: functools.partial(torch.mul, other=0.5)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CASES)
def test_programs_serve_other_calls(name, dtype):
    f, make = CASES[name]
    compiled = thunder.jit(f, numerics="eager")
    for i, n in enumerate((4, 8, 7, 16, 33)):
        x = randn(n, 8, dtype=dtype, seed=i)
        torch.testing.assert_close(gradients(compiled, x, make(i)), gradients(f, x, make(i)))
    assert thunder.cache_misses(compiled) <= 3, thunder.compile_stats(compiled)["last_miss"]


def test_seeds_that_are_arguments():
    def f(x, seed):
        torch.manual_seed(seed)
        OWN.manual_seed(seed + 1)
        return x + torch.rand_like(x), torch.rand(5, generator=OWN, device=x.device), F.dropout(x, 0.5)

    compiled = thunder.jit(f)
    for seed in (5, 2, 7, 9, 7):
        x = randn(3, 4)
        assert all(map(torch.equal, compiled(x, seed), f(x, seed)))
    assert thunder.cache_misses(compiled) <= 3, thunder.compile_stats(compiled)["last_miss"]


class Masked(nn.Conv2d):
    def __init__(self, data):
        super().__init__(2, 3, 3)
        self.data = data
        self.register_buffer("mask", torch.ones_like(self.weight))
        self.mask[:, :, 1:] = 0

    def forward(self, x):
        if self.data:
            self.weight.data *= self.mask
        else:
            with torch.no_grad():
                self.weight *= self.mask
        return super().forward(x)


@pytest.mark.parametrize("data", [False, True])
def test_weights_that_are_masked_in_each_call(data):
    def run(compile):
        torch.manual_seed(0)
        module = Masked(data).to(DEVICE)
        function = thunder.jit(module) if compile else module
        said = []
        for n in (2, 2, 1, 5):
            y = function(randn(n, 2, 5, 7, seed=n))
            y.square().sum().backward()
            said += [y.detach(), module.weight.detach().clone(), module.weight.grad.clone()]
            with torch.no_grad():
                module.weight.sub_(0.01 * module.weight.grad)
            module.weight.grad = None
        if compile:
            assert not thunder.compile_stats(function)["eager_calls"]
        return said

    torch.testing.assert_close(run(True), run(False), rtol=1e-4, atol=1e-4)


def test_lengths_of_ctc_loss_that_are_tensors():
    def f(scores, *rest):
        return F.ctc_loss(scores.log_softmax(-1), *rest)

    compiled = thunder.jit(f)
    for i in range(4):
        generator = torch.Generator().manual_seed(i)
        targets, lengths, of_targets = (
            torch.randint(low, high, shape, generator=generator).to(DEVICE)
            for low, high, shape in ((1, 7, (3, 9)), (25, 31, (3,)), (2, 10, (3,)))
        )
        x = randn(30, 3, 7, seed=i)
        torch.testing.assert_close(gradients(compiled, x, targets, lengths, of_targets),
                                   gradients(f, x, targets, lengths, of_targets), rtol=1e-4, atol=1e-4)
    assert thunder.cache_misses(compiled) == 1, thunder.compile_stats(compiled)["last_miss"]
