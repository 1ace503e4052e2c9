"""Attributes that the user's code keeps in tensors."""

import pytest
import torch

import thunder


class Named:
    def __init__(self, name):
        self.name = name


def tag(x):
    y = x * 2
    y.tag = 1
    x.seen = True
    return y


def tags_in_a_structure(x):
    y, z = x + 1, x - 1
    y.where, z.info = [1, {"a": z}], Named("z")
    y.itself = y
    return {"y": y, "list": [z, y]}


def has_flag(x):
    return x * (2 if hasattr(x, "flag") else 3)


def scaled(x):
    return x * x.scale


def scaled_by_default(x):
    return x * getattr(x, "scale", 5.0)


def masked(x):
    return x * x.mask if hasattr(x, "mask") else x + 1


def counted(x):
    x.count = getattr(x, "count", 0) + 1
    x.last = x * 2
    return x + x.count


def deleted(x):
    if hasattr(x, "flag"):
        del x.flag
    return x + 1


def appended(x):
    x.journal = getattr(x, "journal", [])
    x.journal.append(x.shape[0])
    return x + len(x.journal)


def passed_on(x):
    y = x + 1
    y.kind = "sum"
    return y * 2 if describe(y) == "sum" else y


def describe(t):
    return getattr(t, "kind", None)


def in_place(x):
    y = x + 1
    y.tag = "before"
    y.add_(1).other = 2
    return y


def of_vars(x):
    return x * len(vars(x))


def nothing(x):
    return x


SETS = [
    lambda x: None,
    lambda x: setattr(x, "flag", True),
    lambda x: setattr(x, "scale", 2.0),
    lambda x: setattr(x, "scale", 3.0),
    lambda x: setattr(x, "scale", torch.full((3,), 4.0)),
    lambda x: (setattr(x, "mask", torch.tensor([1.0, 0.0, 1.0])), setattr(x, "count", 7)),
    lambda x: setattr(x, "journal", [1, 2]),
]
PROGRAMS = [tag, tags_in_a_structure, has_flag, scaled, scaled_by_default, masked, counted, deleted, appended,
            passed_on, in_place, of_vars, nothing]


def content(o, seen=None):
    """Everything of a result that can be compared."""
    seen = {} if seen is None else seen
    if id(o) in seen:
        return f"again {seen[id(o)]}"
    seen[id(o)] = len(seen)
    if isinstance(o, torch.Tensor):
        return o.tolist(), {k: content(v, seen) for k, v in vars(o).items()}
    if isinstance(o, Named):
        return "Named", content(vars(o), seen)
    if isinstance(o, dict):
        return {k: content(v, seen) for k, v in o.items()}
    if isinstance(o, (list, tuple)):
        return [content(v, seen) for v in o]
    return o


def outcome(f, x):
    try:
        result = f(x)
    except AttributeError as error:
        return type(error), content(x)
    return content(result), content(x)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_attributes_are_eagers(f):
    compiled = thunder.jit(f)
    for set_attributes in (*SETS, *SETS):
        plain, other = torch.ones(3), torch.ones(3)
        set_attributes(plain), set_attributes(other)
        assert outcome(compiled, other) == outcome(f, plain)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_a_tensor_that_comes_again(f):
    compiled = thunder.jit(f)
    plain, other = torch.ones(3), torch.ones(3)
    for set_attributes in SETS:
        set_attributes(plain), set_attributes(other)
        assert outcome(compiled, other) == outcome(f, plain)


def test_parameters_and_captured_tensors():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.weight.scale = 2.0

        def forward(self, x):
            self.weight.calls = getattr(self.weight, "calls", 0) + 1
            return x * self.weight * self.weight.scale

    plain, other = Model(), Model()
    compiled = thunder.jit(other)
    for scale in (2.0, 2.0, 3.0, 5.0):
        plain.weight.scale = other.weight.scale = scale
        assert torch.equal(compiled(torch.ones(3)), plain(torch.ones(3)))
        assert vars(other.weight) == vars(plain.weight)


def test_attributes_cost_nothing_where_the_code_does_not_look():
    compiled = thunder.jit(lambda x: x + 1)
    for i in range(4):
        x = torch.ones(2)
        x.number = i
        compiled(x)
    assert thunder.cache_misses(compiled) == 1


ASKED = torch.ones(3)


@pytest.mark.parametrize("f", [
    lambda x: x * (2 if ASKED.dim() > 1 else 3),
    lambda x: x * ASKED.shape[0],
    lambda x: x + (1 if ASKED.dtype == torch.float64 else 0),
    lambda x: x * getattr(ASKED, "scale", 4),
])  # fmt: skip
def test_a_captured_tensor_that_is_only_asked_may_be_replaced(f):
    global ASKED
    compiled = thunder.jit(f)
    scaled = torch.ones(3)
    scaled.scale = 7
    for now in (torch.ones(3), torch.ones(3), torch.ones(2, 3), scaled, torch.ones(3, dtype=torch.float64)):
        ASKED = now
        assert torch.equal(compiled(torch.ones(2)), f(torch.ones(2)))
