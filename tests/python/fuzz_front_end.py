"""Random programs over random worlds: what eager and compiled do is compared, also after the world was changed.

    python tests/python/fuzz_front_end.py --seed 7 --programs 1000

Each program is a world (fuzz_worlds.py), a function f over it, and calls of f with changes in between, made in two
equal worlds.  A call that the compiler refuses ends its program.  A result, a gradient or a world that differs, also
after an exception, or another exception, is a finding: the program is printed, without the statements that it does not
need.
"""

import collections
import contextlib
import dataclasses
import random
import re
import textwrap
import warnings

import torch
from fuzz_worlds import BLOCKS, PARTS, RULES
from fuzzing import Finding, Fuzzer, attempt, main
from worlds import Pairs, World, assert_same

import thunder
from thunder._marks import is_refusal

HOLE = re.compile("<(" + "|".join(RULES) + ")>")
RESULTS = ["y", "y, n", "[y, w]", "{'y': y, 'e': e}", "y, <any>", "y, <nums>, <map>", "y, <obj>"]
DEEPEST = 3  # of expressions in expressions, and blocks in blocks
MOST_TICKS = 40  # of all loops in a call
STATES = {
    "": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "float64": lambda: default_dtype(torch.float64),
}


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@dataclasses.dataclass
class Statement:
    """Headers with a block each; or one without: a simple statement."""

    headers: list
    blocks: list

    def text(self):
        if not self.blocks:
            return self.headers[0]
        out = []
        for header, block in zip(self.headers, self.blocks, strict=True):
            body = text_of(block) or "pass"
            if header.startswith("for "):
                body = f"ticks += 1\nif ticks > {MOST_TICKS}: break\n{body}"
            out += [header, textwrap.indent(body, "    ")]
        return "\n".join(out)


def text_of(statements):
    return "\n".join(s.text() for s in statements)


@dataclasses.dataclass
class Step:
    """A change of both worlds, and the call after it."""

    changes: list
    arguments: str
    state: str = ""
    requires_grad: bool = False


@dataclasses.dataclass
class Program:
    parts: list
    globals: list
    body: list
    result: str
    steps: list

    def source(self):
        prologue = "ticks, y, n, k, w, e = 0, x, 1, 0, [], {}"
        names = f"global {', '.join(self.globals)}\n" if self.globals else ""
        body = textwrap.indent(f"{names}{prologue}\n{text_of(self.body)}\nreturn {self.result}", "    ")
        return "\n".join([*self.parts, f"def f(x, a, q, o, m=1, *, s=2):\n{body}"])

    def __str__(self):
        out = [self.source()]
        for s in self.steps:
            note = f"  # {s.state or 'x'}{' requires grad' if s.requires_grad else ''}"
            out += ["# ---", *s.changes, f"f({s.arguments}){note}"]
        return "\n".join(out)


class Maker:
    """Makes a program of random numbers."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.rules = {name: list(texts) for name, texts in RULES.items()}

    @classmethod
    def made(cls, seed):
        return cls(seed).program()

    def program(self):
        parts, names = [], []
        for number, kind in enumerate(["kept", *self.random.choices(list(PARTS), k=self.random.randint(1, 4))]):
            source, rules, of_globals = PARTS[kind]
            put = lambda text, number=number: text.replace("#", str(number))
            if kind == "kept" and number:
                continue
            parts.append(self.fill(put(source).strip()))
            names += [put(n) for n in of_globals]
            for rule, texts in rules.items():  # a world's own come as often as all others together
                own = [put(t) for t in texts]
                self.rules[rule] += own * max(1, len(RULES[rule]) // (3 * len(own)))
        body = self.block(0, self.random.randint(2, 6))
        result = self.random.choice(RESULTS)
        steps = []
        for _ in range(self.random.randint(3, 6)):
            steps.append(self.step(steps[-1] if steps else None))
        return Program(parts, sorted(names), body, self.fill(result), steps)

    def fill(self, text, depth=0):
        def one(match):
            texts = self.rules[match[1]]
            if depth >= DEEPEST:
                texts = [t for t in texts if not HOLE.search(t)] or ["1"]
            return self.fill(self.random.choice(texts), depth + 1)

        return HOLE.sub(one, text)

    def block(self, depth, n):
        return [self.statement(depth) for _ in range(n)]

    def statement(self, depth):
        if depth >= DEEPEST or self.random.random() < 0.7:
            return Statement([self.fill(self.random.choice(self.rules["do"]), 1)], [])
        headers = self.random.choice(BLOCKS)
        blocks = [self.block(depth + 1, self.random.randint(1, 2)) for _ in headers]
        return Statement([self.fill(h, 1) for h in headers], blocks)

    def step(self, last):
        again = last and self.random.random() < 0.6
        n = self.random.choice([0, 1, 1, 2]) if last else 0
        changes = [self.fill(self.random.choice(self.rules["change"])) for _ in range(n)]
        if again:
            return dataclasses.replace(last, changes=changes)
        arguments = ", ".join(f"<argument {kind}>" for kind in ("nums", "map", "obj"))
        extra = self.random.choice(["", "", "", ", m=<literal>", ", s=<literal>"])
        state = self.random.choice(list(STATES)) if self.random.random() < 0.2 else ""
        return Step(changes, f"x, {self.fill(arguments + extra)}", state, self.random.random() < 0.3)


def gradients(world):
    """Flows back from all that the world holds."""
    found = list(_computed(world.state(), world.module.__name__, {}))
    if found:
        sum(t.double().sum() for t in found).backward(retain_graph=True)


# No closure that calls itself: a cycle of garbage would keep what weak references point to alive.
def _computed(o, module, seen):
    """The tensors with a graph that an object leads to."""
    if id(o) in seen or isinstance(o, type):
        return
    seen[id(o)] = o
    inside = ()
    if isinstance(o, torch.Tensor):
        if o.requires_grad and not o.is_leaf:
            yield o
    elif isinstance(o, dict):
        inside = o.values()
    elif isinstance(o, list | tuple | collections.deque):
        inside = o
    elif type(o).__module__ == module:
        inside = [getattr(o, "__dict__", None), *(getattr(o, name, None) for name in getattr(type(o), "__slots__", ()))]
    for v in inside:
        yield from _computed(v, module, seen)


def call(world, f, step, x):
    scope = dict(world.names, f=f)
    scope["x"] = world.names["x"] = x.detach().clone().requires_grad_(step.requires_grad)
    with STATES[step.state](), warnings.catch_warnings():
        # The compiled program raised what the function does not, unless it caught it.
        warnings.filterwarnings("error", r"\[jit\]", RuntimeWarning)
        warnings.filterwarnings("ignore", r"\[jit\] the compiled program raised IndexError", RuntimeWarning)
        torch.manual_seed(0)
        world.names["out"] = None
        world.names["out"] = eval(f"f({step.arguments})", scope)
        world.names["drawn"] = torch.rand(1)
    return True


def change_world(world, statements):
    torch.manual_seed(1)
    world.do(statements)


def same(a, b, where):
    try:
        assert_same(a, b, where, Pairs(zeros_for_none=True, rtol=1e-3, atol=1e-4))  # long programs add up roundings
    except AssertionError as error:
        raise Finding(str(error)) from None


class Run:
    """A program in two worlds.  `refusal`: why it ended early, if it did."""

    def __init__(self, program):
        source = program.source()
        self.eager, self.compiled = World(source), World(source)
        for world in (self.eager, self.compiled):
            world.names.update(x=None, out=None, drawn=None)
        self.functions = self.eager.names["f"], thunder.jit(self.compiled.names["f"], numerics="eager")
        # Graphs that were made before see what is assigned.
        self.assigns_data = ".data = " in str(program)
        self.refusal = None
        calls = 0
        generator = torch.Generator().manual_seed(1)
        for i, step in enumerate(program.steps):
            self.refusal = self.step(step, torch.randn(2, 3, generator=generator), f"call {i}: ")
            if self.refusal:
                break
            calls += 1
        self.counts = {"calls": calls, "hits": thunder.cache_hits(self.functions[1])}

    def step(self, step, x, where):
        for change in step.changes:
            errors = [attempt(lambda w=w, c=change: change_world(w, c))[1] for w in (self.eager, self.compiled)]
            if type(errors[0]) is not type(errors[1]):
                raise Finding(f"{where}{change}: {errors[0]!r} and {errors[1]!r}")
        _, error = attempt(lambda: call(self.compiled, self.functions[1], step, x))
        if error and "advances" in thunder.compile_stats(self.functions[1])["not_cached"]:
            return f"{error!r} behind what cannot be done twice"
        if is_refusal(error):
            self.eager.names.update(out=None, x=self.compiled.names["x"], drawn=self.compiled.names["drawn"])
            same(self.eager.state(), self.compiled.state(), f"{where}after {error}: ")
            return str(error)
        _, expected = attempt(lambda: call(self.eager, self.functions[0], step, x))
        if "changed during iteration" in str(expected):
            return f"{expected!r}, which Python raises late or not at all, by the room that the dict happens to have"
        if type(error) is not type(expected):
            raise Finding(f"{where}eager: {expected!r}, compiled: {error!r}") from error
        same(self.eager.state(), self.compiled.state(), f"{where}after {error!r}: " if error else where)
        if error:
            return None
        if self.assigns_data and where != "call 0: ":
            return "eager's gradients are of any values after data was assigned"
        _, expected = attempt(lambda: gradients(self.eager))
        if expected:
            return f"eager's {expected!r}"
        _, error = attempt(lambda: gradients(self.compiled))
        if error and "modified by an inplace operation" in str(error):
            return str(error)  # other tensors are saved than in eager
        if error:
            raise Finding(f"{where}backward: {error!r}") from error
        same(self.eager.state(), self.compiled.state(), f"{where}after the backward: ")
        return None


def smaller(program):
    """Programs with something left out."""
    if len(program.steps) > 1:
        for i in range(len(program.steps)):
            yield dataclasses.replace(program, steps=program.steps[:i] + program.steps[i + 1 :])
    for i in range(len(program.parts)):
        yield dataclasses.replace(program, parts=program.parts[:i] + program.parts[i + 1 :])
    for i, s in enumerate(program.steps):
        replaced = [dataclasses.replace(s, changes=s.changes[:j] + s.changes[j + 1 :]) for j in range(len(s.changes))]
        replaced += [dataclasses.replace(s, state="")] if s.state else []
        replaced += [dataclasses.replace(s, requires_grad=False)] if s.requires_grad else []
        simple = "x, [1], {}, thing()"
        replaced += [dataclasses.replace(s, arguments=simple)] if s.arguments != simple else []
        for r in replaced:
            yield dataclasses.replace(program, steps=[*program.steps[:i], r, *program.steps[i + 1 :]])
    for name in program.globals:
        yield dataclasses.replace(program, globals=[n for n in program.globals if n != name])
    if program.result != "y":
        yield dataclasses.replace(program, result="y")
    for body in smaller_blocks(program.body):
        yield dataclasses.replace(program, body=body)


def smaller_blocks(block):
    for i, s in enumerate(block):
        before, after = block[:i], block[i + 1 :]
        yield before + after
        for inner in s.blocks:
            yield before + inner + after
        for j, inner in enumerate(s.blocks):
            for less in smaller_blocks(inner):
                yield [*before, Statement(s.headers, [*s.blocks[:j], less, *s.blocks[j + 1 :]]), *after]


FUZZER = Fuzzer(Maker.made, Run, smaller)

if __name__ == "__main__":
    main(FUZZER, __doc__)
