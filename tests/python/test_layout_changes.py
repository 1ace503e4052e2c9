"""In-place operators that change a tensor's sizes or strides and leave its data."""

import pytest
import torch
from aliasing_checks import difference
from eager_checks import check_left_to_eager
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


SIZES = {
    "t": lambda y: y.t_(),
    "unsqueeze": lambda y: y.unsqueeze_(0),
    "squeeze": lambda y: y.squeeze_(0),
    "transpose": lambda y: y.transpose_(0, 1),
    "swapaxes": lambda y: y.swapaxes_(0, 1),
    "as_strided": lambda y: y.as_strided_((2, 2), (1, 2)),
}


def under_no_grad(change):
    def of_a_tensor(x):
        y = x[:2] * x[:2]
        with torch.no_grad():
            change(y)
        return y.requires_grad, y.mul_(3)

    def of_a_view(x):
        y = (x * 2)[:2]
        with torch.no_grad():
            change(y)
        y.mul_(2)
        return y

    def of_a_view_that_gets_a_gradient(x):
        y = (x.detach() * 2)[:2]
        with torch.no_grad():
            change(y)
        y.mul_(x.sum())
        return y

    return of_a_tensor, of_a_view, of_a_view_that_gets_a_gradient


@pytest.mark.parametrize("place", [0, 1, 2], ids=["tensor", "view", "view that gets a gradient"])
@pytest.mark.parametrize("name", SIZES)
def test_under_no_grad(name, place):
    """What changes its sizes stays a function of what it was, and a view of the mode in which it was made."""
    x = X.double() if name != "as_strided" else X.double()[:2]
    found = difference(under_no_grad(SIZES[name])[place], [x], grad=True)
    # Eager's graph takes the gradient of the new sizes for one of the old.
    assert not found or (place == 0 and "eager RuntimeError: Function" in found), found


def test_resize_of_a_view_under_no_grad():
    def f(x):
        y = (x.detach() * 2)[:2]
        with torch.no_grad():
            y.resize_(2, 2)
        y.mul_(x.sum())
        return y

    assert not difference(f, [X], grad=True)
    grad = lambda x: under_no_grad(lambda y: y.resize_(2, 2))[1](x)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        thunder.jit(grad)(X.clone().requires_grad_())


@pytest.mark.parametrize("name", SIZES)
def test_detached_after_a_change(name):
    """detach_() of what is no view, also if its sizes have changed."""

    def f(x, part):
        y = (x * 2)[part]
        SIZES[name](y)
        return y.detach_() * 3, y.requires_grad

    def whole(x):
        y = x * 2
        SIZES[name](y)
        return y.detach_() * 3, y.requires_grad

    assert not difference(whole, [X], grad=True)
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        thunder.jit(lambda x: f(x, slice(0, 2)))(X.clone().requires_grad_())


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
    check_left_to_eager(f, X, why=what, compare="fill" not in what)


def test_what_requires_grad_is_not_resized():
    x = X.clone().requires_grad_()
    for f in (lambda x: (x * 1).resize_(2), lambda x: (x * 1).resize_as_(x[:1])):
        for g in (f, thunder.jit(f)):
            with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
                g(x)


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.transpose(1, 2).view(2, -1) * 2,
        lambda t: t.transpose(1, 2).view(torch.int32),
        lambda t: torch.view_as_complex(t.transpose(1, 2).unflatten(-1, (3, 2))).abs(),
        lambda t: t,
        lambda t: t.as_strided((3, 4), (1, 2)),
        lambda t: torch.nn.functional.layer_norm(t, (32,)) + t,
    ],
)
def test_a_permuted_sum_that_a_norm_reads(view):
    """The compiler may lay the sum out by rows; what depends on its layout sees eager's."""
    places = torch.randn(2, 6, 32)

    def f(x):
        t = x.transpose(1, 2) + places
        return torch.nn.functional.layer_norm(t, (32,)), view(t)

    x = torch.randn(2, 32, 6, requires_grad=True)
    for got, want in zip(thunder.jit(f)(x), f(x), strict=True):
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()
