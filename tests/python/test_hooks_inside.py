"""Tensor.register_hook() inside of compiled functions: called in each backward, with eager's gradients."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import thunder


def eager_calls(f):
    return dict(thunder.compile_stats(f)["eager_calls"])


SEEN = []


def keep(gradient):
    SEEN.append(gradient.clone())


def double(gradient):
    return 2 * gradient


def compare(fn, hook_of, *shapes, calls=3, dtype=torch.float64):
    """Gradients of several calls, and what the hook has seen in each."""
    f = thunder.jit(fn)
    for _ in range(calls):
        x = [torch.randn(s, dtype=dtype, requires_grad=True) for s in shapes]
        found = []
        for run in (f, fn):
            SEEN.clear()
            grads = torch.autograd.grad(run(*x).sin().sum(), x)
            found.append((grads, list(SEEN)))
        assert_close(found[0], found[1])
        assert len(found[0][1]) == hook_of
    assert eager_calls(f) == {} and thunder.cache_misses(f) <= 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", [(4, 8), (5, 7), (1, 1), (0, 3)])
def test_function_from_outside(shape, dtype):
    def f(x):
        h = x.tanh()
        h.register_hook(keep)
        return h * h

    compare(f, 1, shape, dtype=dtype)

    def changed(x):
        h = x.tanh()
        h.register_hook(double)
        return h * h + h

    compare(changed, 0, shape, dtype=dtype)


def test_function_made_inside():
    def f(x, w):
        h = x @ w
        h.register_hook(lambda g, by=3: by * g)
        y = h.relu()
        y.register_hook(keep)
        return y * 2

    compare(f, 1, (4, 3), (3, 5))


def differentiates(gradient):
    SEEN.append(torch.tensor(torch.is_grad_enabled()))
    with torch.enable_grad():
        t = gradient.detach().requires_grad_()
        return torch.autograd.grad((t**2).sum(), t)[0]


def test_hook_that_differentiates():
    def f(x):
        h = x.tanh()
        h.register_hook(differentiates)
        return h * h

    compare(f, 1, (4, 3))


def test_a_backward_that_does_not_come_by():
    def f(x):
        h = x.tanh()
        h.register_hook(keep)
        return x * 2 + h.detach()

    compare(f, 0, (4,))


class Activations(nn.Module):
    """Grad-CAM: a layer's activations and their gradient."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU())
        self.head = nn.Linear(4, 2)
        self.gradient = None

    def save(self, gradient):
        self.gradient = gradient

    def forward(self, x, method=True):
        h = self.features(x)
        if h.requires_grad:
            if method:
                h.register_hook(self.save)
            else:
                h.register_hook(lambda g: setattr(self, "gradient", g))
        return self.head(h.mean((2, 3))), h


@pytest.mark.parametrize("method", [True, False])
def test_gradients_of_activations(method):
    torch.manual_seed(0)
    model = Activations()
    f = thunder.jit(model)
    for _ in range(3):
        x = torch.randn(2, 1, 6, 6)
        maps = []
        for run in (f, model):
            model.gradient = None
            logits, h = run(x, method)
            (logits[:, 0].sum() + h.square().sum()).backward()
            maps.append((h * model.gradient).sum(1).relu().detach())
        assert_close(*maps)
    with torch.no_grad():
        assert_close(f(x, method), model(x, method))
    assert eager_calls(f) == {}


def test_forward_hook_that_registers_one():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    model[1].register_forward_hook(lambda module, args, output: output.register_hook(keep) and None)
    f = thunder.jit(model)
    for _ in range(3):
        x = torch.randn(5, 3)
        seen = []
        for run in (f, model):
            SEEN.clear()
            model.zero_grad()
            run(x).square().sum().backward()
            seen.append((list(SEEN), [p.grad.clone() for p in model.parameters()]))
        assert len(seen[0][0]) == 1
        assert_close(seen[0], seen[1])
    assert eager_calls(f) == {}


def test_what_a_hook_raises():
    def f(x):
        h = x * 2
        h.register_hook(lambda g: g[1:])
        return h

    x = torch.randn(4, requires_grad=True)
    for run in (f, thunder.jit(f)):
        with pytest.raises(RuntimeError, match="has changed the size"):
            run(x).sum().backward()


def argument(x):
    x.register_hook(double)
    return x * 2


def twice(x):
    h = x * 2
    h.register_hook(double)
    h.register_hook(lambda g: g + 1)
    return h * 3


def read_before(x):
    h = x * 2
    y = h.sin()
    h.register_hook(double)
    return y


def view(x):
    h = x.view(2, 2)
    h.register_hook(double)
    return h * 3


def holds_a_tensor(x):
    h = x * 2
    h.register_hook(lambda g: g * h.detach())
    return h * 3


def holds_a_list(x):
    h, found = x * 2, []
    h.register_hook(found.append)
    return h * 3


def removed(x):
    h = x * 2
    h.register_hook(double).remove()
    return h * 3


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("fn", [argument, twice, read_before, view, holds_a_tensor, holds_a_list, removed])
def test_left_to_eager(fn):
    f = thunder.jit(fn)
    for _ in range(2):
        found = []
        for run in (f, fn):
            x = torch.arange(4.0, requires_grad=True)
            run(x).sum().backward()
            found.append(x.grad)
        assert_close(*found)
    assert sum(eager_calls(f).values()) == 2 and all("hook" in why for why in eager_calls(f))
