"""`.grad` of captured tensors that require no gradient: None is a guard of the program."""

import pytest
import torch
from devices import DEVICE

import thunder


class Average(torch.nn.Module):
    """What libraries of quantization do: a gradient that somebody left is added."""

    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n, device=DEVICE))
        self.weight = torch.nn.Parameter(torch.ones(n, device=DEVICE))

    def forward(self, x, read):
        new = x.detach().mean(0)
        if read(self.mean) is not None:
            new = new + self.mean.grad
            self.mean.grad = None
        self.mean.data.lerp_(new, 0.1)
        return x * self.weight - self.mean


def by_attribute(t):
    return t.grad


def by_getattr(t):
    return getattr(t, "grad", None)


@pytest.mark.parametrize("read", [by_attribute, by_getattr])
@pytest.mark.parametrize("n", [1, 7, 8])
def test_none(read, n):
    module, twin = Average(n), Average(n)
    jitted = thunder.jit(module)
    for rows in (3, 3, 1, 5, 3):
        x = torch.randn(rows, n, device=DEVICE)
        got, want = jitted(x, read), twin(x, read)
        torch.testing.assert_close(got, want)
        got.sum().backward()
        want.sum().backward()
        torch.testing.assert_close(module.weight.grad, twin.weight.grad)
        torch.testing.assert_close(module.mean, twin.mean)
    assert not thunder.compile_stats(jitted)["eager_calls"] and thunder.cache_misses(jitted) < 4


@pytest.mark.filterwarnings("ignore:.*reading .grad")
@pytest.mark.parametrize("read", [by_attribute, by_getattr])
def test_one_that_somebody_left(read):
    """The program is for None alone."""
    module, twin = Average(4), Average(4)
    jitted = thunder.jit(module)
    x = torch.randn(3, 4, device=DEVICE)
    for i in range(6):
        for m in (module, twin):
            if i in (2, 3):
                m.mean.grad = torch.full_like(m.mean, float(i))
            if i == 4:
                m.mean = torch.ones(4, device=DEVICE)
            if i == 5:
                m.mean = torch.ones(4, device=DEVICE)
                m.mean.grad = torch.ones(4, device=DEVICE)
        torch.testing.assert_close(jitted(x, read), twin(x, read))
        torch.testing.assert_close(module.mean, twin.mean)
        assert module.mean.grad is None and twin.mean.grad is None


@pytest.mark.filterwarnings("ignore:.*reading .grad")
def test_parameters_are_eagers():
    weight = torch.ones(3, device=DEVICE, requires_grad=True)

    def f(x):
        return x * weight if weight.grad is None else x * weight.grad

    jitted = thunder.jit(f)
    x = torch.arange(3.0, device=DEVICE)
    jitted(x).sum().backward()
    torch.testing.assert_close(jitted(x + 1), (x + 1) * x)
