"""Tensor.register_hook() inside of compiled functions: called in each backward, with eager's gradients."""

import warnings

import pytest
import torch
from eager_checks import eager_calls
from torch import nn
from torch.testing import assert_close

import thunder

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


def twice(x):
    h = x * 2
    h.register_hook(double)
    h.register_hook(keep)
    h.register_hook(lambda g: g + 1)
    return h * 3


def read_before(x):
    h = x * 2
    y = h.sin()
    h.register_hook(keep)
    h.register_hook(double)
    return y + h


def several_read_before(x):
    a, b = (x * 2).chunk(2)
    y = a.sin() * b
    a.register_hook(keep)
    b.register_hook(double)
    return y + a


def view(x):
    h = (x * 2).view(-1)
    h.register_hook(keep)
    h.register_hook(double)
    return h[:4] * 3 + h[4:].sin()


def view_read_before(x):
    h = (x * 2).t()
    part = h[1:]
    h.register_hook(keep)
    h.register_hook(double)
    return part.exp() + h[:1]


def removed(x):
    h = x * 2
    y = h.sin()
    handle, kept = h.register_hook(double), h.register_hook(keep)
    handle.remove()
    handle.remove()
    assert kept is not handle
    return y + h


def in_a_scope(x):
    h = x * 2
    with h.register_hook(double):
        y = h * 3
    h.register_hook(keep)
    return y


def before_and_after_a_write(x):
    h = x * 2
    h.register_hook(double)
    h.mul_(3)
    h.register_hook(keep)
    return h.sin()


def view_of_what_is_written_to(x):
    h = x * 2
    h.register_hook(keep)
    h.register_hook(double)
    h.view(-1)[1:3].mul_(2)
    return h.sin()


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        return t * 2

    @staticmethod
    def backward(ctx, g):
        return g * 5


def custom_function(x):
    h = Scale.apply(x)
    y = h.sin()
    h.register_hook(keep)
    h.register_hook(double)
    return y * h


WORLDS = [
    twice, read_before, several_read_before, view, view_read_before, removed, in_a_scope, before_and_after_a_write,
    view_of_what_is_written_to, custom_function,
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("fn", WORLDS)
def test_where_hooks_are(fn, dtype):
    compare(fn, 1, (2, 4), dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types(dtype):
    f, fn = thunder.jit(read_before, numerics="eager"), read_before
    x, found = torch.randn(5, 7).to(dtype), []
    for run in (f, fn):
        SEEN.clear()
        t = x.clone().requires_grad_()
        run(t).sin().sum().backward()
        found.append((t.grad, list(SEEN)))
    assert_close(*found, rtol=2e-2, atol=2e-2)


def test_results_that_no_loss_uses():
    def f(x):
        a, b = x.sin(), x.exp()
        a.register_hook(keep)
        b.register_hook(double)
        return a * 2, b * 3

    f_ = thunder.jit(f)
    for used in (0, 1):
        found = []
        for run in (f_, f):
            SEEN.clear()
            x = torch.arange(4.0, dtype=torch.float64).requires_grad_()
            run(x)[used].sum().backward()
            found.append((x.grad, list(SEEN)))
        assert_close(*found)
        assert len(found[0][1]) == 1 - used


def test_sizes_that_vary():
    f = thunder.jit(read_before)
    for n in (4, 5, 7, 1, 16):
        x, found = torch.randn(n, 3), []
        for run in (f, read_before):
            SEEN.clear()
            t = x.clone().requires_grad_()
            run(t).sum().backward()
            found.append((t.grad, list(SEEN)))
        assert_close(*found)
    assert eager_calls(f) == {} and thunder.cache_misses(f) <= 3


def argument(x):
    x.register_hook(double)
    return x * 2


W = torch.ones(4, requires_grad=True)


def captured(x):
    W.register_hook(keep)
    return x * W


def argument_that_is_written_to(x):
    x.register_hook(double)
    y = x * 3
    x.mul_(2)
    return y + x


# A leaf is not written to, in eager.
@pytest.mark.parametrize(
    ("fn", "of_leaf"),
    [(argument, True), (argument, False), (captured, True), (captured, False), (argument_that_is_written_to, False)],
)
def test_tensors_from_outside(fn, of_leaf):
    """As in eager a hook stays with the caller's tensor, one for each call."""
    f, found = thunder.jit(fn), []
    for run in (f, fn):
        SEEN.clear()
        W.grad, W._backward_hooks = None, None
        x = torch.arange(4.0, requires_grad=True)
        t = x if of_leaf else x * 3
        for _ in range(3):
            (run(t).sum() + t.sum()).backward(retain_graph=True)
        found.append((x.grad, W.grad, list(SEEN)))
    assert_close(*found)
    assert eager_calls(f) == {}


class Tool:
    """An object of the user's that keeps the gradients of an activation."""

    def __init__(self, layer):
        self.gradients = []
        layer.register_forward_hook(self.hook)

    def hook(self, module, args, output):
        def store(g):
            self.gradients = [g.detach().clone()] + self.gradients

        output.register_hook(store)


def test_tools_that_are_no_modules():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    tools = [Tool(model[0]), Tool(model[1])]
    f = thunder.jit(model)
    for _ in range(3):
        x, seen = torch.randn(5, 3), []
        for run in (f, model):
            for tool in tools:
                tool.gradients = []
            run(x).square().sum().backward()
            seen.append([tool.gradients for tool in tools])
        assert_close(*seen)
        assert all(len(g) == 1 for g in seen[0])
    assert eager_calls(f) == {}


def test_an_object_among_the_arguments():
    class Box:
        def __init__(self):
            self.seen = []

    def f(x, box):
        h = x * 2
        h.register_hook(lambda g: box.seen.append(g.clone()))
        return h * 3

    f_ = thunder.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            boxes = []
            for run in (f_, f):
                box, x = Box(), torch.ones(3, requires_grad=True)
                run(x, box).sum().backward()
                boxes.append(box.seen)
            assert_close(*boxes)
            assert len(boxes[0]) == 1


def test_with_respect_to_what_has_a_hook():
    def f(x):
        h = x.exp()
        h.register_hook(double)
        return torch.autograd.grad(h.sin().sum(), h)[0]

    f_ = thunder.jit(f)
    x = torch.arange(3.0, requires_grad=True)
    with pytest.warns(UserWarning, match="has hooks"):
        assert_close(f_(x), f(x))


def test_gradients_inside_through_a_hook():
    def f(x):
        h = x.exp()
        h.register_hook(keep)
        h.register_hook(double)
        return torch.autograd.grad(h.sin().sum(), x)[0]

    compare_results = []
    f_ = thunder.jit(f)
    for _ in range(2):
        for run in (f_, f):
            SEEN.clear()
            compare_results.append((run(torch.arange(3.0, requires_grad=True)), list(SEEN)))
        assert_close(*compare_results[-2:])
        assert len(SEEN) == 1


def test_in_a_checkpoint():
    def f(x, w):
        def part(t):
            h = (t @ w).sin()
            h.register_hook(keep)
            h.register_hook(double)
            return h.exp()

        return torch.utils.checkpoint.checkpoint(part, x, use_reentrant=False)

    compare(f, 1, (4, 3), (3, 3))


def test_around_which_there_is_a_checkpoint():
    f = thunder.jit(read_before)
    x, found = torch.randn(4, 3, dtype=torch.float64), []
    for run in (f, read_before):
        SEEN.clear()
        t = x.clone().requires_grad_()
        torch.utils.checkpoint.checkpoint(run, t, use_reentrant=False).sum().backward()
        found.append((t.grad, list(SEEN)))
    assert_close(*found)


def test_numbers_that_change():
    def f(x, by):
        h = x * 2
        h.register_hook(lambda g: g * by)
        return h * 3

    f_ = thunder.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for by in (2.5, 3.5, 4.5, 7.5):
            x = torch.ones(3, requires_grad=True)
            f_(x, by).sum().backward()
            assert_close(x.grad, torch.full((3,), 6 * by))


def test_second_derivatives():
    f = thunder.jit(read_before)
    x = torch.arange(3.0, requires_grad=True)
    (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    assert_close(g.detach(), torch.autograd.grad(read_before(x).sum(), x)[0])
    with pytest.raises(RuntimeError, match="double backward is not supported"):
        g.sum().backward()
