"""In-place operators that change a tensor's sizes or strides and leave its data."""

import pytest
import torch
from test_inplace import agree

import thunder

X = torch.arange(12.0).view(3, 4)
SQUARE = torch.arange(9.0).view(3, 3)


def aliases_of_the_old_shape(x):
    y = x.clone()
    row = y[0]
    y.t_()
    y.add_(1)
    y[0].mul_(3)
    return y, row, y.shape[0] * y


def views_that_change(x):
    y = x.clone()
    v = y.t()
    w = v[1:]
    v.unsqueeze_(0).squeeze_()
    w.add_(2)
    v.transpose_(0, 1)
    v[0, 0] = 100
    return y, v, w


def shrunk(x):
    y = x.clone()
    whole = y.view(-1)
    y.resize_(2, 3).mul_(2)
    return y, whole, y.resize_as_(x[0])


PROGRAMS = {
    "aliases": (aliases_of_the_old_shape, SQUARE),
    "views": (views_that_change, X),
    "resize": (shrunk, X),
    "t": (lambda x: x.clone().t_() * 2, X),
    "nothing to squeeze": (lambda x: x.clone().squeeze_(), X),
    "a dimension": (lambda x: x.clone().squeeze_(0), X[:1]),
    "swapped": (lambda x: x.clone().swapaxes_(0, 1).swapdims_(1, 0), X),
    "as_strided": (lambda x: x.clone().as_strided_((2, 2), (1, 2)), X),
    "resize of a transposed tensor": (lambda x: x.clone().t().resize_((2, 3)), X),
    "resize to nothing": (lambda x: x.clone().resize_(0, 3), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_eager(name):
    f, x = PROGRAMS[name]
    agree(f, x)


def test_gradients():
    def f(x):
        y = x * 2
        y.t_().unsqueeze_(0)
        y[0, 1].mul_(3)
        return y * y

    gradients = []
    for g in (f, thunder.jit(f)):
        x = X.clone().requires_grad_()
        g(x).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


def test_symbolic_sizes():
    def f(x):
        y = x + 1
        return y.t_().sum(0)

    jitted = thunder.jit(f, cache="symbolic values")
    for shape in ((3, 4), (5, 6)):
        x = torch.randn(shape)
        torch.testing.assert_close(jitted(x), f(x))
    assert thunder.cache_misses(jitted) == 1


@pytest.mark.parametrize(
    "f, what",
    [
        (lambda x: x.t_(), "the tensor itself"),
        (lambda x: x.resize_(2), "cannot resize an argument"),
        (lambda x: x.clone().resize_(20), "can be resized to what its own elements fill"),
        (lambda x: x.clone().resize_(2, 1, 1, 2, memory_format=torch.channels_last), "channels_last"),
    ],
)
def test_refused(f, what):
    with pytest.raises(NotImplementedError, match=what):
        thunder.jit(f)(X.clone())


def test_what_requires_grad_is_not_resized():
    x = X.clone().requires_grad_()
    for f in (lambda x: (x * 1).resize_(2), lambda x: (x * 1).resize_as_(x[:1])):
        for g in (f, thunder.jit(f)):
            with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
                g(x)
