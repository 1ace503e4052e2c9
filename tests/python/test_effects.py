"""What a compiled program writes to the world is there after every call, as in eager.

Two equal worlds are made of each source: eager runs in one, the compiled function in the other.  After each of several
calls the results, the arguments and everything in the worlds are compared, and which of their objects are the same.
"""

import weakref

import pytest
import torch
from effects_arguments import ARGUMENTS
from effects_cases import CASES, FAILURES, GRADIENTS, HARD
from worlds import World, assert_same

import thunder
from thunder._marks import is_ours

CALLS = 4


class Twins:
    def __init__(self, source, call="f(x)"):
        self.eager, self.compiled = World(source), World(source)
        self.f = thunder.jit(self.compiled.names["f"])
        self.call = compile(call, "<call>", "eval")

    def run(self, x, after=""):
        """One call in each world, compared; the exception that both raised, or None."""
        errors = []
        for world, f in ((self.eager, self.eager.names["f"]), (self.compiled, self.f)):
            scope = dict(world.names, f=f)
            world.names["x"] = scope["x"] = x.detach().clone().requires_grad_(x.requires_grad)
            try:
                scope["out"] = eval(self.call, scope)
            except Exception as error:
                errors.append(error)
            world.names.update({k: v for k, v in scope.items() if v is not f and not k.startswith("__")})
            world.do(after)
        if len(errors) == 1:
            raise AssertionError(f"one of the two raised {errors[0]!r}") from errors[0]
        assert not errors or type(errors[0]) is type(errors[1])
        return errors or None

    def compare(self, where=""):
        assert_same(self.eager.state(), self.compiled.state(), where)

    @property
    def misses(self):
        return thunder.cache_misses(self.f)


def inputs(n=CALLS, requires_grad=False):
    torch.manual_seed(1)
    return [torch.randn(2, 3, requires_grad=requires_grad) for _ in range(n)]


@pytest.mark.parametrize("source, programs", CASES.values(), ids=list(CASES))
def test_writes_are_eagers(source, programs):
    twins = Twins(source)
    for i, x in enumerate(inputs()):
        twins.run(x)
        twins.compare(f"call {i}")
    assert twins.misses <= (programs or CALLS)


def test_objects_as_arguments_are_told_apart_by_what_they_hold():
    """As many programs as kinds of contents, not one for each object."""
    source = "def f(x, c):\n  c.v.append(x)\n  c.n = len(c.v)\n  return x * c.k"
    twins = Twins(source, "f(x, thing(v=[x], k=k)), f(x, thing(v=[], k=k))")
    for world in (twins.eager, twins.compiled):
        world.names["k"] = 2.0
    for i, x in enumerate(inputs()):
        twins.run(x)
        twins.compare(f"call {i}")
    assert twins.misses == 2


def test_attributes_that_nobody_reads_do_not_matter():
    source = "n = 0\ndef f(x, c):\n  c.last = x * c.k\n  return c.last + (c.rare if c.k > 2 else 0)"
    twins = Twins(source, "f(x, c := thing(k=k, n=n, rare=n + 1))")
    for i, x in enumerate(inputs(8)):
        for world in (twins.eager, twins.compiled):
            world.names.update(n=i, k=2.0 if i < 5 else 3.0)
        twins.run(x)
        twins.compare(f"call {i}")
    # One for all of the first five; from then on c.rare is read, which is another number in every call: one for the
    # number that it is, and one for any.
    assert twins.misses == 3


@pytest.mark.parametrize("ask", ["vars(c)['k']", "copy.copy(c).k", "operator.attrgetter('k')(c)", "c.__dict__['k']"])
def test_attributes_can_be_read_in_many_ways(ask):
    twins = Twins(f"import copy\ndef f(x, c): return x * {ask}", "f(x, thing(k=k))")
    for i, x in enumerate(inputs()):
        for world in (twins.eager, twins.compiled):
            world.names["k"] = float(i // 2)
        twins.run(x)
        twins.compare(f"call {i}")
    # Python's copy keeps a list of the class's slots in the class when it first copies one.
    assert twins.misses == (3 if "copy" in ask else 2)


@pytest.mark.parametrize("source, call, after", GRADIENTS.values(), ids=list(GRADIENTS))
def test_gradients_flow_through_what_was_kept(source, call, after):
    twins = Twins(source, call)
    for i, x in enumerate(inputs(requires_grad=True)):
        twins.run(x, after)
        twins.compare(f"call {i}")


@pytest.mark.parametrize("source, call", ARGUMENTS.values(), ids=list(ARGUMENTS))
def test_writes_to_arguments(source, call):
    twins = Twins(source, call)
    for i, x in enumerate(inputs()):
        twins.run(x)
        twins.compare(f"call {i}")


@pytest.mark.parametrize("source, call", FAILURES.values(), ids=list(FAILURES))
def test_what_was_written_before_an_exception_stays(source, call):
    twins = Twins(source, call)
    for i, x in enumerate(inputs()):
        twins.run(x)
        twins.compare(f"call {i}")


@pytest.mark.filterwarnings("ignore::UserWarning")  # that the call is left to eager
@pytest.mark.parametrize("source", HARD.values(), ids=list(HARD))
def test_what_cannot_be_made_again_is_refused(source):
    twins = Twins(source)
    for i, x in enumerate(inputs()):
        try:
            twins.run(x)
        except AssertionError as error:
            refusal = error.__cause__
            if not is_ours(refusal):
                raise
            return
        twins.compare(f"call {i}")


OUT_OF_SIGHT = {
    "class": "class L: w = x * 2\n  v.append(L)",
    "generator": "y = x * 2\n  v.append(y * i for i in range(2))",
    "iterator": "v.append(iter([x * 2]))",
    "method of C code": "v.append((x * 2).add)",
    "exception": "v.append(ValueError(x * 2))",
}


@pytest.mark.parametrize("write", OUT_OF_SIGHT.values(), ids=list(OUT_OF_SIGHT))
def test_a_tensor_where_it_cannot_be_replaced_is_left_to_eager(write):
    world = World(f"v = []\ndef f(x):\n  {write}\n  return x")
    f = thunder.jit(world.names["f"])
    with pytest.warns(UserWarning, match=r"\[jit\] a .* that outlives the call holds a tensor"):
        f(torch.ones(3))
    f(torch.ones(3))
    assert len(world.names["v"]) == 2


def test_tensors_in_sets_and_keys():
    world = World("v = []\ndef f(x):\n  v.append(({x * 2}, {x * 3: 1}))\n  return x")
    f = thunder.jit(world.names["f"])
    for i in range(1, 4):
        f(torch.full((3,), float(i)))
    assert [(next(iter(s))[0].item(), next(iter(d))[0].item()) for s, d in world.names["v"]] == [(2, 3), (4, 6), (6, 9)]


def test_a_program_for_one_call_is_not_kept():
    world = World("it = iter([1.0, 2.0, 3.0])\nk = 1.0\ndef f(x, last): return x * (k if last else next(it))")
    f = thunder.jit(world.names["f"])
    x = torch.ones(3)
    assert [f(x, i > 2)[0].item() for i in range(5)] == [1, 2, 3, 1, 1]
    assert thunder.cache_misses(f) == 4 and thunder.cache_hits(f) == 1
    assert thunder.compile_stats(f)["not_cached"] == ""
    with pytest.raises(StopIteration):
        f(x, False)
    assert "advances a list_iterator" in thunder.compile_stats(f)["not_cached"]


def test_nothing_of_the_compilers_is_left():
    """A program that is refused leaves the world as it was, to which the function then writes."""
    write = "c.n += 1\n  c.last = x\n  v.append(x)"
    twins = Twins(f"c = thing(n=0)\nv = []\ndef f(x):\n  {write}\n  return len(x[torch.rand(3) > 2]) + c.n")
    with pytest.warns(UserWarning, match="value of a tensor"):
        assert twins.run(torch.ones(3)) is None
    assert twins.run(torch.ones(3)) is None
    twins.compare()


@pytest.mark.parametrize("ends", ["return x + 1", "raise KeyError(1)"])
@pytest.mark.parametrize(
    "kind, change",
    [
        ("dict", "d.update(b=True)"),
        ("dict", "d['k'] = 3.0"),
        ("dict", "del d['k']"),
        ("list", "d.append(4)"),
        ("list", "d[0] = 4"),
        ("set", "d.add(4)"),
        ("collections.deque", "d.append(4)"),
        ("bytearray", "d.append(4)"),
    ],
)
def test_attributes_of_containers_are_not_their_elements(kind, change, ends):
    made = "D({'a': 2, 'k': 1.0})" if kind == "dict" else "D([1, 2])"
    twins = Twins(
        f"class D({kind}): pass\nd = {made}\nd.k = 1\nd.other = 2\n"
        f"def f(x):\n  d.k = 2.0\n  {change}\n  d.other = d.k\n  {ends}"
    )
    for x in inputs(3):
        twins.run(x)
        twins.compare()


def test_a_program_that_was_kept_writes_again():
    """Three programs in turns: each hit makes its own writes."""
    twins = Twins("v = []\nk = 1\ndef f(x):\n  v.append((k, x * k))\n  return x * k")
    for i, x in enumerate(inputs(9)):
        for world in (twins.eager, twins.compiled):
            world.names["k"] = i % 3
        twins.run(x)
        twins.compare(f"call {i}")
    assert twins.misses == 3


def test_what_was_kept_is_not_kept_alive():
    world = World("c = thing()\ndef f(x):\n  c.last = x * 2\n  return x + 1")
    f = thunder.jit(world.names["f"])
    f(torch.ones(3))
    first = weakref.ref(world.names["c"].last)
    f(torch.ones(3))
    assert first() is None
