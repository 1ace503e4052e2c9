"""Uses of Tensor.register_hook() that no program has: the function runs as it is."""

import pytest
import torch
from eager_checks import eager_calls
from torch.testing import assert_close

import thunder

W = torch.ones(4, requires_grad=True)


def double(gradient):
    return 2 * gradient


KEPT = []


def keeps_the_handle(x):
    h = x * 2
    KEPT.append(h.register_hook(double))
    return h * 3


def returns_the_handle(x):
    h = x * 2
    return h * 3, h.register_hook(double)


@pytest.mark.parametrize("fn", [keeps_the_handle, returns_the_handle])
@pytest.mark.parametrize("removes", [True, False])
def test_handles_that_leave(fn, removes):
    f = thunder.jit(fn)
    with pytest.warns(UserWarning, match="_Handle that outlives the call"):
        for _ in range(2):
            found = []
            for run in (f, fn):
                KEPT.clear()
                x = torch.arange(4.0, requires_grad=True)
                made = run(x)
                y, handle = made if isinstance(made, tuple) else (made, KEPT[0])
                if removes:
                    handle.remove()
                y.sum().backward()
                found.append(x.grad)
            assert_close(*found)
    assert sum(eager_calls(f).values()) == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("removes", [True, False])
def test_handles_of_arguments_that_leave(removes):
    def fn(x):
        KEPT.append(x.register_hook(double))
        return x * 3

    def of_weight(x):
        KEPT.append(W.register_hook(double))
        return x * W

    for function in (fn, of_weight):
        f = thunder.jit(function)
        for _ in range(3):
            found = []
            for run in (f, function):
                KEPT.clear()
                W.grad, W._backward_hooks = None, None
                x = torch.arange(4.0, requires_grad=True)
                y = run(x)
                if removes:
                    KEPT[0].remove()
                y.sum().backward()
                found.append((x.grad, W.grad))
            assert_close(*found)


def view_of_an_argument(x):
    h = x.view(2, 2)
    h.register_hook(double)
    return h * 3


def view_and_its_base(x):
    h = x * 2
    v = h.view(2, 2)
    v.register_hook(double)
    return v, h


def turned_between_hooks(x):
    h = x.view(2, 2) * 2
    h.register_hook(double)
    h.t_()
    h.register_hook(lambda g: g.cumsum(0))
    return h * 3


def whole_view(x):
    h = x * 2
    v = h.view_as(h)
    v.register_hook(double)
    return v * 3 + h


def holds_a_tensor(x):
    h = x * 2
    h.register_hook(lambda g: g * h.detach())
    return h * 3


def holds_a_list(x):
    h, found = x * 2, []
    h.register_hook(found.append)
    return h * 3


def removed_from_an_argument(x):
    handle = x.register_hook(double)
    y = x * 2
    handle.remove()
    return y


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "fn",
    [view_of_an_argument, view_and_its_base, turned_between_hooks, whole_view, holds_a_tensor, holds_a_list,
     removed_from_an_argument],
)  # fmt: skip
def test_left_to_eager(fn):
    f = thunder.jit(fn)
    for _ in range(2):
        found = []
        for run in (f, fn):
            x = torch.arange(4.0, requires_grad=True)
            made = run(x)
            sum(t.sum() for t in made).backward() if isinstance(made, tuple) else made.sum().backward()
            found.append(x.grad)
        assert_close(*found)
    assert sum(eager_calls(f).values()) == 2 and all("hook" in why for why in eager_calls(f))
