"""Names, file names and strings that UTF-8 cannot spell: a lone surrogate is legal in all of them."""

import pytest
import torch

import thunder

ODD = "\udcff"


def compiled_from(source, name, file):
    scope = {"torch": torch}
    exec(compile(source, file, "exec"), scope)
    return scope[name]


def test_a_function_of_a_file_with_an_odd_name():
    f = compiled_from("def f(x):\n    return g(x) * 2\ndef g(x):\n    return x + 1\n", "f", f"/tmp/{ODD}.py")
    x = torch.randn(3)
    g = thunder.jit(f)
    torch.testing.assert_close(g(x), f(x))


def test_a_function_with_an_odd_qualified_name():
    def f(x):
        return inner(x) * 2

    def inner(x):
        return x + 1

    f.__qualname__ = inner.__qualname__ = f.__name__ = ODD
    x = torch.randn(3)
    torch.testing.assert_close(thunder.jit(f)(x), (x + 1) * 2)


def test_an_error_of_a_function_with_odd_names():
    f = compiled_from("def f(x):\n    return torch.matmul(x, x)\n", "f", f"/tmp/{ODD}.py")
    f.__qualname__ = ODD
    with pytest.raises(RuntimeError, match=r"udcff\.py"):
        thunder.jit(f)(torch.randn(2, 3))


@pytest.mark.parametrize("cache", ["varying values", "constant values", "symbolic values"])
def test_odd_strings_as_arguments(cache):
    def f(x, mode):
        return x + 1 if mode == ODD else x - 1

    g = thunder.jit(f, cache=cache)
    x = torch.randn(3)
    for mode in (ODD, "\\udcff", ODD + "\\udcff", ODD + ODD, "", ODD):
        torch.testing.assert_close(g(x, mode), f(x, mode))


def test_odd_keys_and_keywords():
    def f(d, **keywords):
        return d[ODD] + keywords[ODD] * keywords["y"]

    g = thunder.jit(f)
    x = torch.randn(3)
    for scale in (1.0, 2.0):
        torch.testing.assert_close(g({ODD: x}, **{ODD: x * scale, "y": x}), f({ODD: x}, **{ODD: x * scale, "y": x}))


def test_an_odd_attribute_of_a_module_and_of_a_tensor():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x * getattr(self, ODD) + getattr(x, ODD, 1.0)

    model = Model()
    setattr(model, ODD, 2.0)
    x = torch.randn(3)
    g = thunder.jit(model)
    torch.testing.assert_close(g(x), x * 2 + 1)
    setattr(model, ODD, 3.0)
    torch.testing.assert_close(g(x), x * 3 + 1)


def test_an_odd_global_that_changes():
    f = compiled_from("def f(x):\n    return x * globals()['\\udcff']\n", "f", "odd.py")
    f.__globals__[ODD] = 2.0
    g = thunder.jit(f)
    x = torch.randn(3)
    torch.testing.assert_close(g(x), x * 2)
    f.__globals__[ODD] = 3.0
    torch.testing.assert_close(g(x), x * 3)


def test_a_warning_and_a_state_with_odd_names():
    def f(x, state):
        state[ODD] = state.get(ODD, 0) + 1
        return x * state[ODD]

    g = thunder.jit(f)
    state = {}
    for n in (1, 2, 3):
        torch.testing.assert_close(g(torch.ones(2), state), torch.full((2,), float(n)))
    assert state == {ODD: 3}

