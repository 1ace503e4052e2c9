"""Whatever a compiled program read from the world is checked: each kind of read, changed between two calls.

Each world's source defines `f`, and `x` is its argument; the other strings are changes to the world, made one after
the other.  Eager's result is required after each, and a call without a change is a hit.
"""

import contextlib
import gc

import pytest
import torch
from soundness_cases import CASES, UNRELATED
from worlds import World, assert_same, differ

import thunder


@pytest.fixture
def undo():
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    with contextlib.ExitStack() as stack:
        yield stack
    torch.set_default_dtype(dtype)
    torch.set_grad_enabled(grad)


def start(source, undo):
    world = World(source, undo)
    f = world.names["f"]
    x = world.names.setdefault("x", torch.arange(6.0).reshape(2, 3) / 4 - 0.5)
    compiled = thunder.jit(f)
    assert_same(f(x), compiled(x), "the first call")
    assert thunder.cache_misses(compiled) == 1
    compiled(x)
    assert thunder.cache_misses(compiled) == 1, f"a call without a change: {thunder.compile_stats(compiled)}"
    return world, f, x, compiled


@pytest.mark.parametrize("source, changes", [(s, c) for s, *c in CASES.values()], ids=list(CASES))
def test_a_change_is_seen(source, changes, undo):
    world, f, x, compiled = start(source, undo)
    for change in changes:
        before = f(x)
        world.do(change)
        after = f(x)
        assert differ(before, after), f"this changes nothing in eager: {change}"
        assert_same(after, compiled(x), change)
        misses = thunder.cache_misses(compiled)
        assert_same(after, compiled(x), f"the call after the one after {change}")
        assert thunder.cache_misses(compiled) == misses, "a call without a change"


@pytest.mark.parametrize("source, changes", [(s, c) for s, *c in UNRELATED.values()], ids=list(UNRELATED))
def test_a_change_of_what_was_not_read_is_a_hit(source, changes, undo):
    world, f, x, compiled = start(source, undo)
    for change in changes:
        world.do(change)
        assert_same(f(x), compiled(x), change)
        assert thunder.cache_misses(compiled) == 1, change


def test_back_and_forth_compiles_each_program_once(undo):
    world, f, x, compiled = start("scale = 1.0\ndef f(x): return x * scale", undo)
    for scale in (2.0, 1.0, 2.0, 3.0, 1.0, 3.0):
        world.names["scale"] = scale
        assert_same(f(x), compiled(x))
    assert thunder.cache_misses(compiled) == 3


def test_an_object_of_the_same_address_is_another(undo):
    """What a guard names by identity stays alive, so that no new object takes its address."""
    source = "class A: k = 2.0\nclass B: k = 3.0\nholder = thing(it=A())\ndef f(x): return x * holder.it.k"
    world, f, x, compiled = start(source, undo)
    for change in ("A", "B") * 4:
        world.do("holder.it = None")
        world.do(f"holder.it = {change}()")
        assert_same(f(x), compiled(x), change)


BACK_AND_FORTH = {
    "cell": ("def make(w): return lambda x: x * w\nf = make(torch.ones(3))", "f.__closure__[0].cell_contents"),
    "list": ("v = [torch.ones(3)]\ndef f(x): return x * v[0]", "v[0]"),
    "dict": ("d = {'w': torch.ones(3)}\ndef f(x): return x * d['w']", "d['w']"),
    "attribute": ("c = thing(w=torch.ones(3))\ndef f(x): return x * c.w", "c.w"),
}


@pytest.mark.parametrize("source, place", BACK_AND_FORTH.values(), ids=list(BACK_AND_FORTH))
def test_tensors_exchanged_back_and_forth(source, place, undo):
    world, f, x, compiled = start("k = 1\n" + source, undo)
    world.do(f"first, second = {place}, torch.ones(3) * 2")
    for name in ("second", "first", "first", "second", "first"):
        world.do(f"{place} = {name}")
        assert_same(f(x), compiled(x), name)
    assert thunder.cache_misses(compiled) == 1


def test_a_write_is_seen_also_where_another_guard_failed_first(undo):
    source = "c = thing(w=torch.ones(3))\ndef make(k): return lambda x: x * c.w * k\nf = make(2.0)"
    world, f, x, compiled = start(source, undo)
    world.do("c.w = torch.ones(3) * 5; f.__closure__[0].cell_contents = 3.0")
    assert_same(f(x), compiled(x))
    world.do("f.__closure__[0].cell_contents = 2.0")
    assert_same(f(x), compiled(x))
    assert thunder.cache_misses(compiled) == 2


def test_one_list_passed_twice():
    f = thunder.jit(lambda v, w, x: v[0] * 2 + w[0] * x)
    v, x = [torch.ones(3) * 5], torch.ones(3) * 7
    for _ in range(2):
        assert_same(v[0] * 2 + v[0] * x, f(v, v, x))


def test_what_the_garbage_collector_calls_is_not_the_programs(undo):
    """Its callbacks and finalizers run at any place in a program, and write for themselves."""
    source = """
    calls = finalized = 0
    def callback(phase, info):
        global calls
        calls += 1
    class Cycle:
        def __init__(self): self.me = self
        def __del__(self):
            global finalized
            finalized += 1
    def f(x):
        for i in range(300): [[i], Cycle()]
        return x * 2
    """
    before = gc.get_threshold()
    undo.callback(gc.set_threshold, *before)
    world = World(source)
    gc.callbacks.append(world.names["callback"])
    undo.callback(gc.callbacks.remove, world.names["callback"])
    gc.set_threshold(10)
    compiled = thunder.jit(world.names["f"])
    x = torch.ones(3)
    for _ in range(3):
        assert_same(x * 2, compiled(x))
    gc.collect()
    assert thunder.cache_misses(compiled) == 1
    assert world.names["calls"] > 2 and world.names["finalized"] == 300
