"""Each part of the record of the environment (csrc/frontend/reads.h), by the guards and effects that it gives.

A read of the environment is a guard, so that the program holds as long as the value stays, and no longer.
"""

import collections
import functools
import operator
import types
import warnings

import pytest
import torch

import thunder

X = torch.arange(3.0)


def check(f, change, *, misses):
    """The results are eager's before and after `change`, by so many programs."""
    compiled = thunder.jit(f)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), f(X))
    change()
    for _ in range(2):
        torch.testing.assert_close(compiled(X), f(X))
    assert thunder.cache_misses(compiled) == misses, thunder.explain_miss(compiled)
    return compiled


# ---- object names ----------------------------------------------------------------------------------------------------


class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.ModuleDict({"a": torch.nn.Linear(3, 3)})
        self.options = {"scales": [2.0, 3.0]}

    def forward(self, x):
        return self.inner["a"](x) * self.options["scales"][1]


def test_guards_have_the_names_of_their_users():
    compiled = thunder.jit(Named())
    compiled(X)
    text = str(thunder.last_prologue_traces(compiled)[0])
    assert "module.options[scales][1] == 3.0" in text
    assert "module.inner.a._parameters['weight'] a tensor" in text
    assert "globals of F['linear']" in text


# ---- container reads -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read, change, misses",
    [
        (lambda d: d["values"][0], lambda d: d["values"].append(5.0), 1),  # one element
        (lambda d: d["values"][0], lambda d: d["values"].__setitem__(0, 7.0), 2),
        (lambda d: d["values"][-1], lambda d: d["values"].append(5.0), 2),  # the length, too
        (lambda d: len(d["values"]), lambda d: d["values"].__setitem__(0, 7.0), 1),  # the length alone
        (lambda d: sum(d["values"]), lambda d: d["values"].__setitem__(1, 7.0), 2),  # all of them
        (lambda d: 1.0 in d["set"], lambda d: d["set"].add(9.0), 2),
        (lambda d: d.get("none", 2.0), lambda d: d.__setitem__("other", 3.0), 1),  # an entry that is not there
        (lambda d: d.get("none", 2.0), lambda d: d.__setitem__("none", 3.0), 2),
        (lambda d: next(iter(d["ordered"].values())), lambda d: d["ordered"].move_to_end("a"), 2),
        (lambda d: next(iter(d["entries"].values())), lambda d: d["entries"].update(a=d["entries"].pop("a")), 2),
    ],
)
def test_as_much_of_a_container_counts_as_was_read(read, change, misses):
    world = {
        "values": [1.0, 2.0],
        "set": {1.0, 2.0},
        "ordered": collections.OrderedDict(a=1.0, b=2.0),
        "entries": {"a": 1.0, "b": 2.0},
    }
    check(lambda x: x * read(world), lambda: change(world), misses=misses)


# ---- class reads -----------------------------------------------------------------------------------------------------


def classes():
    class Base:
        scale = 2.0

        def method(self):
            return 3.0

    class Derived(Base):
        def method(self):
            return super().method() + 1.0

    return Base, Derived


@pytest.mark.parametrize(
    "change, misses",
    [
        (lambda base, derived, o: setattr(base, "scale", 5.0), 2),
        (lambda base, derived, o: setattr(derived, "scale", 5.0), 2),
        (lambda base, derived, o: setattr(base, "method", lambda self: 7.0), 2),  # by super()
        (lambda base, derived, o: setattr(o, "__class__", base), 2),
        (lambda base, derived, o: setattr(base, "unread", 5.0), 1),
    ],
)
def test_what_a_class_gives_is_a_guard(change, misses):
    base, derived = classes()
    o = derived()
    check(lambda x: x * o.scale + o.method(), lambda: change(base, derived, o), misses=misses)


def test_the_code_and_the_defaults_of_a_function_are_guards():
    def scale(x, by=2.0, *, plus=1.0):
        return x * by + plus

    def change():
        scale.__kwdefaults__ = {"plus": 3.0}

    check(lambda x: scale(x), change, misses=2)


# ---- attribute reads -------------------------------------------------------------------------------------------------


class Slotted:
    __slots__ = ("scale", "unread")

    def __init__(self):
        self.scale, self.unread = 2.0, 1.0


@pytest.mark.parametrize("name, misses", [("scale", 2), ("unread", 1)])
def test_a_slot_that_was_read_is_a_guard(name, misses):
    o = Slotted()
    check(lambda x: x * o.scale, lambda: setattr(o, name, 5.0), misses=misses)


# ---- the log of writes -----------------------------------------------------------------------------------------------


def test_an_entry_that_is_deleted_and_made_again_comes_last():
    worlds = [{"a": 1.0, "b": 2.0, "c": 3.0} for _ in range(2)]

    def f(x, d):
        d["a"] = d.pop("a") + 1.0
        d["new"] = x
        del d["c"]
        return x

    plain = [functools.partial(f, d=d) for d in worlds]
    compiled = thunder.jit(lambda x: f(x, worlds[1]))
    plain[0](X), compiled(X)
    assert [*worlds[1]] == [*worlds[0]] == ["b", "a", "new"]
    assert worlds[1]["a"] == worlds[0]["a"] == 2.0


def test_an_ordered_dict_that_the_program_changes_keeps_its_order():
    state = collections.OrderedDict(a=1, b=2)
    state.move_to_end("a")

    def f(x):
        state.update(c=3)
        return x * 2

    thunder.jit(f)(X)
    assert list(state) == ["b", "a", "c"]


def test_the_order_of_an_ordered_dict_is_a_guard_after_a_write():
    state = collections.OrderedDict(a=5, b=2)

    def f(x):
        state["a"] = 5
        return x * (2 if list(state)[0] == "a" else 3)

    check(f, lambda: state.move_to_end("a"), misses=2)


def test_a_dict_is_known_in_its_order_though_the_program_deletes_an_entry():
    state = {}

    def f(x):
        del state["a"]
        return x * len(list(state))

    compiled = thunder.jit(f)
    for _ in range(3):
        state.clear()
        state.update(a=1, b=2)
        torch.testing.assert_close(compiled(X), X)
        assert list(state) == ["b"]
    assert thunder.cache_misses(compiled) == 1, thunder.explain_miss(compiled)


def test_an_acquisition_that_raises_takes_its_writes_back():
    world = types.SimpleNamespace(n=1, values=[1.0], entries={"a": 1.0})

    def f(x):
        world.n, world.entries["b"] = 5, 2.0
        world.values.append(3.0)
        del world.entries["a"]
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        f(X)
    eager = (world.n, [*world.values], dict(world.entries))
    world.n, world.values[:], world.entries = 1, [1.0], {"a": 1.0}
    with pytest.raises(KeyError, match="mine"):
        thunder.jit(f)(X)
    assert (world.n, world.values, world.entries) == eager


# ---- deep reads ------------------------------------------------------------------------------------------------------


def test_what_c_code_calls_is_read():
    values = [1.0, 2.0]
    first = functools.partial(operator.itemgetter(0), values)
    check(lambda x: x * functools.reduce(operator.add, map(float, [first()])), lambda: values.insert(0, 5.0), misses=2)


def test_a_container_that_holds_itself_is_read_once():
    values = [1.0, 2.0]
    values.append(values)
    check(lambda x: x * len(repr(values)), lambda: values.__setitem__(0, 10.5), misses=2)


@pytest.mark.parametrize("getter, change", [(operator.attrgetter("inner.k"), 5.0), (operator.itemgetter("k"), 7.0)])
def test_getters_read_what_they_name(getter, change):
    world = {"k": 2.0, "unread": 1.0} if isinstance(getter, operator.itemgetter) else None
    o = types.SimpleNamespace(inner=types.SimpleNamespace(k=2.0, unread=1.0))
    source, inner = (world, world) if world else (o, vars(o.inner))
    check(lambda x: x * getter(source), lambda: inner.update(unread=9.0), misses=1)
    check(lambda x: x * getter(source), lambda: inner.update(k=change), misses=2)


# ---- caching calls ---------------------------------------------------------------------------------------------------


def test_a_cache_is_asked_again_before_each_run():
    state = {"k": 2.0}
    scale = functools.lru_cache(lambda name: state[name])

    def change():
        state["k"] = 3.0
        scale.cache_clear()

    check(lambda x: x * scale("k"), change, misses=2)


def test_a_cache_does_not_keep_tensors_of_an_acquisition():
    seen = functools.lru_cache(lambda x: x * 2)
    compiled = thunder.jit(lambda x: seen(x) + 1)
    torch.testing.assert_close(compiled(X), X * 2 + 1)
    assert seen.cache_info().currsize == 0


# ---- sharp edges -----------------------------------------------------------------------------------------------------


def test_a_print_is_a_sharp_edge_and_its_program_is_kept(capsys):
    def f(x):
        print("mine")
        return x + 1

    with pytest.raises(RuntimeError, match=r"\[sharp_edges\] print\(\) writes to the outside"):
        thunder.jit(f, sharp_edges="error")(X)
    with pytest.warns(UserWarning, match=r"\[sharp_edges\] print\(\)"):
        thunder.jit(f, sharp_edges="warn")(X)
    capsys.readouterr()
    compiled = thunder.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(X), compiled(X)
    assert thunder.cache_misses(compiled) == 1 and capsys.readouterr().out == "mine\n"
