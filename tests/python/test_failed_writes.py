"""Writes that raise, and are caught: nothing was written, and nothing is written after later calls."""

import copy

import pytest
import torch

import thunder


class ReadOnly:
    @property
    def a(self):
        return 1


class Slots:
    __slots__ = ("b",)


class Refusing:
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if name == "refused":
            raise AttributeError(name)


class Meta(type):
    def __setattr__(cls, name, value):
        if name == "refused":
            raise AttributeError(name)
        super().__setattr__(name, value)


class OfMeta(metaclass=Meta):
    pass


PROPERTY, SLOTS, REFUSING = ReadOnly(), Slots(), Refusing()


def of_c_code(x):
    try:
        set.foo = 1
    except TypeError:
        x = x + 1
    return x


def of_c_code_by_name(x):
    for attempt in (lambda: setattr(int, "q", 1), lambda: delattr(int, "real"), lambda: type.__setattr__(str, "q", 1)):
        try:
            attempt()
        except TypeError:
            x = x + 1
    return x


def deletion(x):
    try:
        del set.foo
    except (AttributeError, TypeError):
        x = x * 2
    return x


def of_a_property(x):
    try:
        PROPERTY.a = 2
    except AttributeError:
        x = x * 2
    return x * PROPERTY.a


def without_a_slot(x):
    try:
        SLOTS.a = 2
    except AttributeError:
        x = x * 2
    try:
        object.__setattr__(SLOTS, "a", 1)
    except AttributeError:
        x = x * 3
    SLOTS.b = 5
    return x * SLOTS.b


def then_another(x):
    try:
        OfMeta.refused = 1
    except AttributeError:
        OfMeta.kept = 2
    return x * OfMeta.kept


def of_a_tuple(x):
    try:
        (1, 2)[0] = 3
    except TypeError:
        x = x + 1
    return x


FAILING = [of_c_code, of_c_code_by_name, deletion, of_a_property, without_a_slot, then_another, of_a_tuple]


@pytest.mark.parametrize("f", FAILING)
def test_a_write_that_raises_is_none(f):
    compiled = thunder.jit(f)
    for n in (1, 4, 5):
        x = torch.randn(n)
        torch.testing.assert_close(compiled(x), f(x))
    assert not thunder.compile_stats(compiled)["eager_calls"]
    assert not hasattr(OfMeta, "refused")


def test_what_was_written_before_it_raised_stays_written():
    def f(x):
        try:
            REFUSING.refused = len(x.shape)
        except AttributeError:
            x = x + 1
        return x

    compiled = thunder.jit(f)
    for x in (torch.ones(2), torch.ones(2, 3), torch.ones(2)):
        REFUSING.__dict__.clear()
        assert torch.equal(compiled(x), x + 1)
        assert REFUSING.refused == x.ndim


class Plain:
    def __init__(self):
        self.a, self.b = {1, 2}, {"x": [1]}


COPIED = {
    "list": [1, 2],
    "dict": {"a": 1},
    "set": {1, 2},
    "frozenset": frozenset({1}),
    "object": Plain(),
    "module": torch.nn.ReLU(),
    "size": torch.Size([1]),
    "tensor": torch.zeros(2),
}


@pytest.mark.parametrize("name", COPIED)
def test_deepcopy(name):
    def f(x):
        made = copy.deepcopy(COPIED[name])
        return x + 1 if isinstance(made, type(COPIED[name])) else x

    compiled = thunder.jit(f)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert thunder.cache_misses(compiled) <= 2, thunder.compile_stats(compiled)["last_miss"]


def test_deepcopy_of_a_module_in_training():
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))

    def f(x):
        return copy.deepcopy(layer)(x).detach() + layer(x)

    compiled = thunder.jit(f)
    for n in (2, 5, 1):
        x = torch.randn(n, 4)
        layer.zero_grad()
        want = f(x)
        want.square().sum().backward()
        grads = [p.grad.clone() for p in layer.parameters()]
        layer.zero_grad()
        got = compiled(x)
        got.square().sum().backward()
        torch.testing.assert_close(got, want)
        torch.testing.assert_close([p.grad for p in layer.parameters()], grads)
    assert not thunder.compile_stats(compiled)["eager_calls"]
