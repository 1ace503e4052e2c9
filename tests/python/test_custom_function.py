"""torch.autograd.Function inside compiled functions: its own forward, and its own backward as the gradient."""

import sys
import threading

import pytest
import torch
from devices import DEVICE
from test_torch_operators import check, randn

import thunder


class Scale(torch.autograd.Function):
    """A gradient that is not the forward's, so that it shows which of the two ran."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.sin() * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * ctx.factor * 7, None


class Product(torch.autograd.Function):
    """setup_context, an intermediate that is saved, a gradient that is not needed."""

    @staticmethod
    def forward(x, y):
        product = x * y
        return product, product.exp(), (x > y)

    @staticmethod
    def setup_context(ctx, inputs, output):
        product, exponential, larger = output
        ctx.mark_non_differentiable(larger)
        ctx.save_for_backward(*inputs, exponential)
        assert ctx.needs_input_grad[0]

    @staticmethod
    def backward(ctx, g, h, k):
        x, y, exponential = ctx.saved_tensors
        g = g + h * exponential
        return g * y, g * x if ctx.needs_input_grad[1] else None


class RoundThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


def test_its_backward_is_the_gradient():
    check(lambda x: Scale.apply(x * 2, 3.0) + 1, randn(4))


def test_several_results():
    def f(x, y):
        a, b, larger = Product.apply(x, y)
        assert not larger.requires_grad
        return torch.where(larger, a, b * 2)

    check(f, randn(3), randn(3))
    check(f, randn(3), randn(3).detach())
    check(lambda x, y: Product.apply(x, y)[0], randn(3), randn(3))


def test_straight_through():
    check(lambda x: RoundThrough.apply(x * 3) * x, randn(5))


def test_one_after_the_other_and_one_inside_the_other():
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return Scale.apply(x, 2.0)

        @staticmethod
        def backward(ctx, g):
            return RoundThrough.apply(g * ctx.saved_tensors[0])

    check(lambda x: Outer.apply(Scale.apply(Scale.apply(x, 0.5), 2.0)), randn(4))


def test_memory():
    class InPlace(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            y = x.clone()
            y[1:].mul_(w[1:])
            ctx.save_for_backward(w, y)
            return y.view(2, -1)

        @staticmethod
        def backward(ctx, g):
            w, y = ctx.saved_tensors
            g = g.reshape(-1).clone()
            g[1:].mul_(w[1:])
            return g + y, g.mul_(2)

    def f(x, w):
        y = InPlace.apply(x, w)
        y = y * 2
        y.add_(1)
        return y

    check(f, randn(4), randn(4))


def test_parameters_of_a_closure_and_broadcast_gradients():
    weight = randn(3)

    class Multiply(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * y * weight

        @staticmethod
        def backward(ctx, g):
            return g * weight.detach(), (g * weight.detach()).double()

    check(lambda x, y: Multiply.apply(x, y), randn(2, 3), randn(3))


def test_what_a_module_keeps():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, device=DEVICE))

        def forward(self, x):
            return Scale.apply(x * self.weight, 2.0).sum()

    torch.manual_seed(0)
    layer, x = Layer(), torch.randn(4, device=DEVICE)
    layer(x).backward()
    want, layer.weight.grad = layer.weight.grad, None
    thunder.jit(layer)(x).backward()
    torch.testing.assert_close(layer.weight.grad, want)


def test_without_gradients():
    x = randn(3)
    with torch.no_grad():
        got = thunder.jit(lambda x: Scale.apply(x, 2.0))(x)
    assert not got.requires_grad
    torch.testing.assert_close(got, x.detach().sin() * 2)


def test_errors_are_the_users():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g, g

    def differentiate(function):
        with pytest.warns(RuntimeWarning, match=r"\[jit\] compiling raised"):
            y = thunder.jit(lambda x: function.apply(x))(randn(2).requires_grad_())
        y.sum().backward()

    with pytest.raises(RuntimeError, match="WrongBackward returned an incorrect number of gradients"):
        differentiate(Wrong)

    class Broken(Wrong):
        @staticmethod
        def backward(ctx, g):
            raise ValueError("of the user's")

    with pytest.raises(ValueError, match="of the user's"):
        differentiate(Broken)


def test_checkpoint():
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(4, 4).to(DEVICE)
    for reentrant in (False, True):
        checkpoint(layer, randn(3, 4), use_reentrant=reentrant)  # the first call leaves attributes in torch's functions
        check(lambda x, reentrant=reentrant: checkpoint(lambda t: layer(t).relu(), x * 2, use_reentrant=reentrant),
              randn(3, 4))


def test_eager_calls_while_other_threads_compile():
    """What PyTorch takes for a compilation is the process's, but only the thread that compiles records."""
    apply, wrong = torch.autograd.Function.__dict__["apply"], []

    def work(k):
        def f(x):
            for _ in range(20):
                x = x * 1.01 + k
            return Scale.apply(x, 2.0)

        for _ in range(8):
            x = torch.ones(2)
            try:
                torch.testing.assert_close(thunder.jit(f)(x), f(x))
            except Exception as e:  # noqa: BLE001  # raised again where the test sees it
                wrong.append(e)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong, wrong[0]
    assert not torch.compiler.is_compiling() and torch.autograd.Function.__dict__["apply"] is apply


class ComputesInItsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            y = x.cos()
        return gradient * y


def test_a_backward_that_switches_gradients_on():
    compiled = thunder.jit(lambda x: ComputesInItsBackward.apply(x) * 2)
    for _ in range(3):
        x = torch.randn(3, requires_grad=True)
        compiled(x).sum().backward()
        torch.testing.assert_close(x.grad, 2 * x.detach().cos())
        assert torch.is_grad_enabled()
    assert thunder.cache_misses(compiled) == 1
