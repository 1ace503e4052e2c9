"""Numbers that a program reads from tensors are float, int and bool to whoever looks: types, C code, libraries."""

import array
import collections
import copy
import datetime
import decimal
import fractions
import functools
import itertools
import json
import math
import operator
import pickle
import random
import statistics
import struct

import numpy as np
import pytest
import torch

import thunder

SPEC, PERCENT, NAMED = "{:.1f} {}", "%.3f %d %s %r", "%(a)g"


class Holder:
    pass


def in_an_array(x):
    a = np.zeros(3)
    a[x.long().item() % 3] = x.item()
    a[0] += x.item()
    return a.tolist()


def pickled_object(x):
    o = Holder()
    o.v, o.w = x.item(), [x.item(), {"k": (x.long().item(),)}]
    return vars(pickle.loads(pickle.dumps(o)))


def matched(x):
    match x.item():
        case int():
            return "int"
        case float(v):
            return "float", v


def raised(x):
    out = []
    for action in (lambda: [1, 2][x.item()], lambda: x.item().nothing, lambda: x.item()(), lambda: len(x.item()),
                   lambda: x.long().item() + "a", lambda: range(x.item()), lambda: hex(x.item())):
        try:
            out.append(action())
        except (TypeError, AttributeError) as error:
            out.append(type(error).__name__)
    return out


CASES = {
    "arithmetic of bools": lambda x: [
        [abs(b), +b, -b, ~b, b + b, b * 1, b**2, b / 1, b // 1, b % 2, b & True, b | 1, b << 1, round(b), b.real]
        for b in ((x > 0).item(), (x < 0).item())
    ],
    "magnitudes": lambda x: [str(abs(n)) for n in (x.item(), (x - x).item(), (-(x - x)).item(), (x - x).long().item())],
    "type": lambda x: (type(x.item()), type(float(x)), type(int(x)), type(x.long().item()), type((x > 1).item())),
    "isinstance": lambda x: (
        [isinstance(x.item(), t) for t in (float, int, torch.SymFloat, (int, float), object)],
        [isinstance(x.long().item(), t) for t in (float, int, torch.SymInt, bool)],
        [isinstance((x > 1).item(), t) for t in (bool, int, float)],
    ),
    "class": lambda x: (x.item().__class__, type(x.item()).__name__, x.item().__float__(), x.long().item().__index__()),
    "attributes": lambda x: (hasattr(x.item(), "item"), hasattr(x.item(), "real"), hasattr(x.item(), "node"),
                             getattr(x.item(), "shape", 5), x.item().real, x.item().hex(),
                             x.long().item().bit_length()),
    "is_integer": lambda x: (x.item().is_integer(), x.item().as_integer_ratio()),
    "np.exp": lambda x: np.exp(x.item()),
    "np.mean": lambda x: np.mean([float(x.sum()), 2.0]),
    "np.mean dtype": lambda x: torch.tensor(np.mean([float(x.sum()), 2.0])).dtype,
    "np operators": lambda x: (np.float64(2.0) * x.item(), (np.ones(2) * x.item()).tolist(), x.item() + np.float32(1),
                               x.item() * np.float64(3), np.float64(2.0) == x.item(), np.arange(3.0) < x.item()),
    "np functions": lambda x: (np.linspace(0, x.item(), x.long().item()).tolist(), np.zeros(x.long().item()).shape,
                               np.array([[x.item()], [1.0]]).tolist(), np.float32(x.item()), np.isfinite(x.item())),
    "np.vectorize": lambda x: np.vectorize(lambda v: x.item() * v)(np.arange(3.0)).tolist(),
    "in an array": in_an_array,
    "json": lambda x: json.dumps({"a": [x.item(), {"b": (x.long().item(), (x > 1).item())}], str(x.item()): None}),
    "json default": lambda x: json.dumps(Holder(), default=lambda o: x.item()),
    "timedelta": lambda x: str(datetime.timedelta(seconds=x.item(), days=x.long().item())),
    "struct": lambda x: struct.pack("<fi", x.item(), x.long().item()),
    "array": lambda x: array.array("d", [x.item()]).tolist(),
    "decimal": lambda x: (decimal.Decimal(x.item()), decimal.Decimal(2) * x.long().item()),
    "fraction": lambda x: (fractions.Fraction(x.item()), fractions.Fraction(1, 3) + x.long().item()),
    "statistics": lambda x: (statistics.mean([x.item(), 3.0]), statistics.fmean([x.item(), 3.0])),
    "dict": lambda x: (list({x.item(): 1, (x.long().item(), 2): 2}.items()), {2.0: "two"}.get(x.item()),
                       dict([(x.item(), 1)]), {v.item(): 1 for v in x.reshape(1)}),
    "set": lambda x: sorted({x.item(), 1.0}) + sorted(set([x.item(), 5])) + sorted(frozenset((x.item(),))),
    "counter": lambda x: collections.Counter([x.long().item(), 2]),
    "pickle": lambda x: pickle.dumps((x.item(), x.long().item())),
    "pickled object": pickled_object,
    "copy": lambda x: (copy.copy(x.item()), copy.deepcopy([x.item()])),
    "format": lambda x: (f"{x.item():.3f} {x.item()!r} {x.long().item():04d}", SPEC.format(x.item(), x.item()),
                         PERCENT % (x.item(), x.long().item(), x.item(), x.item()), NAMED % {"a": x.item()},
                         format(x.item(), ".2f"), str(x.item()), repr([x.item()]), ascii(x.item())),
    "math": lambda x: (math.exp(x.item()), math.floor(x.item()), math.isnan(x.item()), math.factorial(x.long().item()),
                       math.fsum([x.item(), 1]), math.hypot(x.item(), 3.0), math.gcd(x.long().item(), 6)),
    "round": lambda x: (round(x.item(), 2), round(x.item()), int(x.item()), divmod(x.item(), 3), abs(-x.item()),
                        pow(x.item(), 2), complex(x.item()), bool(x.item())),
    "indices": lambda x: (list(range(x.long().item())), [1, 2, 3, 4][x.long().item()], "abcd"[: x.long().item()],
                          [0] * x.long().item(), "ab" * x.long().item(), (1, 2, 3, 4)[1 : x.long().item()]),
    "bytes": lambda x: (bytes([x.long().item()]), x.long().item().to_bytes(2, "little"), bin(x.long().item()),
                        chr(x.long().item() + 64)),
    "comparisons": lambda x: (x.item() == "a", x.item() in {2.0}, x.item() in [2.0], x.item() is None),
    "iterables": lambda x: (list(map(np.exp, [x.item()])), list(map(str, [x.item()])), max(x.item(), 1),
                            sorted([x.item(), 1.0, 3.0]), sum(v.item() for v in x.reshape(1)),
                            [k for k, _ in itertools.groupby([x.item(), 1], type)],
                            functools.reduce(operator.add, [x.item(), 1.0]), functools.partial(np.power, x.item())(2)),
    "random": lambda x: random.Random(x.long().item()).random(),
    "bool": lambda x: ((x > 1).item() is True, not (x > 1).item(), str((x > 1).item()), json.dumps((x > 1).item())),
    "complex": lambda x: (x.to(torch.complex64).item(), type(x.to(torch.complex64).item()),
                          x.to(torch.complex64).item().real),
    "match": matched,
    "errors": raised,
    "tensors of a type": lambda x: x * 2 if type(x.sum().item()) is float else x * 0,
    "text of tensors": lambda x: (f"loss {x.sum():.3f}", str(x), f"{x.mean()}", f"{x.reshape(1)!r}", repr([x, x + 1])),
}


def shape(o):
    """With the types of all in it."""
    if isinstance(o, (list, tuple)):
        return type(o), [shape(i) for i in o]
    if isinstance(o, dict):
        return type(o), [shape(i) for i in o.items()]
    return type(o), repr(o)


@pytest.mark.parametrize("options", [{}, {"cache": "symbolic values"}, {"cache": "no caching"}], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_numbers_are_pythons(name, options):
    f = CASES[name]
    compiled = thunder.jit(f, **options)
    for value in (2.0, 2.0, 3.0, 2.5, 2.0):
        assert shape(compiled(torch.tensor(value))) == shape(f(torch.tensor(value)))


def test_a_counter_is_an_int():
    class State:
        step = 0

    def run(state, f):
        return [f(torch.ones(1)).item() for _ in range(5)], state.step

    def make(state):
        def f(x):
            state.step += 1
            packed = struct.unpack("i", struct.pack("i", state.step))[0] if state.step % 3 == 0 else 0
            return x * (2 if type(state.step) is int else 0) + packed

        return f

    plain, other = State(), State()
    assert run(other, thunder.jit(make(other))) == run(plain, make(plain))


def test_numbers_that_nobody_looks_at_stay_numbers_of_the_program():
    def f(x, log):
        log["loss"] = x.sum().item()
        log.setdefault("all", []).append(x.mean().item())
        return x * 2, {"loss": x.sum().item(), "n": [int((x > 0).sum())]}

    compiled = thunder.jit(f)
    for i in range(6):
        x = torch.arange(4.0) - i
        plain, other = {}, {}
        assert repr(compiled(x, other)) == repr(f(x, plain)) and repr(other) == repr(plain)
    assert thunder.cache_misses(compiled) == 1


def test_text_of_tensors_that_require_gradients():
    weight = torch.nn.Parameter(torch.ones(2))

    def f(x):
        return f"{x}", f"{weight}", f"{(x * 2).sum():.2f}", str((x * 2).detach()), str(x * weight)

    compiled = thunder.jit(f)
    for scale in (1.0, 1.0, 2.0):
        x = (torch.ones(2) * scale).requires_grad_()
        *want, product = f(x)
        *got, ours = compiled(x)
        assert got == want
        assert ours == product.replace("MulBackward0", "ThunderBackward")


def test_printed_tensors(capsys):
    def f(x):
        print(x, x.sum(), [x.max()])
        return x + 1

    x = torch.arange(3.0)
    f(x)
    want = capsys.readouterr().out
    thunder.jit(f)(x)
    assert capsys.readouterr().out == want


# ---- integers beyond int64 ------------------------------------------------------------------------------------------

LARGE = 0xBF58476D1CE4E5B9
LARGE_INTS = {
    "mul": lambda x: x * LARGE,
    "rmul": lambda x: LARGE * x,
    "add": lambda x: x + LARGE,
    "sub": lambda x: LARGE - x,
    "hash": lambda x: (x ^ (x >> 3)) * LARGE,
    "xor": lambda x: x ^ LARGE,
    "and": lambda x: x & LARGE,
    "div": lambda x: x / LARGE,
    "floordiv": lambda x: x // LARGE,
    "mod": lambda x: x % LARGE,
    "eq": lambda x: x == LARGE,
    "lt": lambda x: x < LARGE,
    "gt": lambda x: x > LARGE,
    "least": lambda x: x + 2**63,
    "most": lambda x: x + (2**64 - 1),
    "float": lambda x: x.float() * LARGE,
    "complex": lambda x: x.to(torch.complex64) * LARGE,
    "in place": lambda x: x.clone().add_(LARGE),
    "named": lambda x: torch.add(input=x, other=LARGE),
    "int32": lambda x: x.int() * LARGE,
    "uint8": lambda x: x.to(torch.uint8) + LARGE,
    "bool": lambda x: (x > 1) * LARGE,
    "full": lambda x: torch.full((2,), LARGE),
    "full of ints": lambda x: torch.full((2,), LARGE, dtype=torch.int64),
    "full of floats": lambda x: torch.full((2,), LARGE, dtype=torch.float64),
    "fill": lambda x: x.clone().fill_(LARGE),
    "tensor": lambda x: torch.tensor(LARGE),
    "tensor of uint64": lambda x: torch.tensor([LARGE, 3], dtype=torch.uint64),
    "where": lambda x: torch.where(x > 1, x, LARGE),
    "clamp": lambda x: x.clamp(max=LARGE),
    "pow": lambda x: x**LARGE,
    "masked_fill": lambda x: x.masked_fill(x > 1, LARGE),
    "alpha": lambda x: torch.add(x, x, alpha=LARGE),
    "too large": lambda x: x * 2**64,
    "too small": lambda x: x * (-(2**63) - 1),
    "float too large": lambda x: x.float() * 2**64,
    "compared with too large": lambda x: x != 2**70,
    "of Python": lambda x: x + (LARGE - LARGE + 1),
    "read": lambda x: (x.sum().item() + LARGE, x.sum().item() * 2**70, x.sum().item() < LARGE),
}


@pytest.mark.parametrize("options", [{}, {"executors": []}], ids=str)
@pytest.mark.parametrize("name", LARGE_INTS)
def test_integers_beyond_int64(name, options):
    f, x = LARGE_INTS[name], torch.tensor([1, 2, 3, -4])
    try:
        want = f(x)
    except (RuntimeError, OverflowError, ValueError):
        with pytest.raises((RuntimeError, OverflowError, ValueError)):
            thunder.jit(f, **options)(x)
        return
    got = thunder.jit(f, **options)(x)
    if not isinstance(want, torch.Tensor):
        assert got == want
        return
    assert got.dtype == want.dtype and torch.equal(got, want)


def test_a_class_says_its_float():
    class Holder:
        def __float__(self):
            return self.number

        def __complex__(self):
            return complex(self.number, 1)

    def f(x):
        held = Holder()
        held.number = x.sum().item()
        n, z = float(held), complex(held)
        return x * n * z.imag, type(n) is float, type(z) is complex

    g = thunder.jit(f)
    for x in (torch.ones(2), torch.arange(3.0)):
        for ours, eager in zip(g(x), f(x), strict=True):
            assert torch.equal(torch.as_tensor(ours), torch.as_tensor(eager))
