"""Ints of the world that a program reads and changes (`self.step += 1`): symbols, once it is known that they change."""

import collections

import pytest
import torch
from torch import nn

import thunder


def check(make, calls=24, most=None, between=None, **options):
    """Compares two objects of the same kind, one of them called as it is and the other compiled, in a row of calls."""
    plain, other = make(), make()
    compiled = thunder.jit(other, **options)
    for i in range(calls):
        if between is not None:
            between(i, plain), between(i, other)
        x = torch.arange(6.0).view(2, 3).requires_grad_()
        y = x.detach().clone().requires_grad_()
        want, got = plain(x), compiled(y)
        torch.testing.assert_close(got, want, msg=lambda m, i=i: f"call {i}: {m}")
        want.sum().backward(), got.sum().backward()
        torch.testing.assert_close(y.grad, x.grad)
        for name, value in vars(plain).items():
            if isinstance(value, (int, float, str)):
                assert vars(other)[name] == value and type(vars(other)[name]) is type(value), (i, name)
    if most is not None:
        assert thunder.cache_misses(compiled) <= most, thunder.explain_miss(compiled)


class Warmup(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 3)
        self.step = 0

    def forward(self, x):
        self.step += 1
        return self.linear(x) * min(1.0, self.step / 5)


class Periodic(nn.Module):
    step, other = 0, 7

    def __init__(self):
        super().__init__()
        self.step, self.other = 3, 7

    def forward(self, x):
        before = self.step
        self.step = self.step + 1
        if self.step % 4 == 0:
            self.other = self.other + self.step
            x = x + self.other
        return x * before - self.step


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 100
        self.parts = nn.ModuleList([Warmup(), Warmup()])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        self.calls -= 1
        return x / (self.calls + 100)


class Position(nn.Module):
    """What is used as a place in a tensor."""

    def __init__(self):
        super().__init__()
        self.position = 2

    def forward(self, x):
        row = torch.arange(64.0)[self.position : self.position + 3]
        self.position += 1
        return x * row


class Printed(nn.Module):
    """Python needs the number itself."""

    def __init__(self):
        super().__init__()
        self.n, self.text = 2, ""

    def forward(self, x):
        self.n += 1
        self.text = f"call {self.n}"
        return x * self.n


OPTIONS = pytest.mark.parametrize("options", [{}, {"executors": []}, {"cache": "symbolic values"}], ids=str)


@OPTIONS
@pytest.mark.parametrize(
    "make, most",
    [(Warmup, 6), (Periodic, 6), (Outer, 8), (Position, 4), (Printed, None)],
    ids=lambda a: getattr(a, "__name__", None),
)
def test_counters_are_eagers(make, most, options):
    check(make, most=most, **options)


def test_without_a_cache():
    check(Warmup, calls=6, cache="no caching")


def test_a_counter_may_become_something_else():
    def between(i, module):
        if i in (6, 12, 15):
            module.step = {6: 2.5, 12: 1, 15: 10**12}[i]

    check(Warmup, between=between)


def test_a_counter_may_become_what_no_tensor_holds():
    module = Warmup()
    compiled = thunder.jit(lambda x: (setattr(module, "step", module.step * 1000), x + 1)[1])
    module.step = 7
    for i in range(12):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
        assert module.step == 7 * 1000 ** (i + 1)


def test_others_write_between_the_calls():
    check(Periodic, between=lambda i, module: setattr(module, "step", module.step + i % 3), most=12)


def test_two_objects_that_take_turns():
    modules = [Warmup(), Warmup()]
    plain = [Warmup(), Warmup()]

    def step(modules, i, x):
        return modules[i](x)

    compiled = thunder.jit(lambda i, x: step(modules, i, x))
    for n in range(20):
        i = n % 3 % 2
        x = torch.full((1, 3), float(n))
        torch.testing.assert_close(compiled(i, x), step(plain, i, x))
        assert [m.step for m in modules] == [m.step for m in plain]
    assert thunder.cache_misses(compiled) <= 14


def test_a_property_of_that_name():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.__dict__["n"] = 5

        @property
        def n(self):
            return self.__dict__["n"] * 2

        def forward(self, x):
            self.__dict__["n"] = self.__dict__["n"] + 1
            return x * self.n

    check(Counted, calls=8)


def test_integers_of_a_call_may_become_too_large():
    compiled = thunder.jit(lambda x, n: (x + 1, n * n * n, n * n + n), cache="symbolic values")
    for n in (7, 9, 2**40, 11, 2**62, 5):
        y, *numbers = compiled(torch.ones(2), n)
        assert numbers == [n**3, n * n + n] and torch.equal(y, torch.full((2,), 2.0))


# ---- floats, and numbers in other places ----------------------------------------------------------------------------

STATE = {"loss": 8.0, "n": 2, "lr": 0.5}
SCALE = 3.0


class Decay:
    """Places of a program's numbers: one object for the eager run, one for the compiled one."""

    def __init__(self):
        self.scale, self.state, self.row = 4.0, {"ema": 1.0, "n": 5, 3: 2.5}, [1.5, 7]


def attribute(o, x):
    o.scale *= 0.5
    return x * o.scale


def entry(o, x):
    o.state["ema"] = o.state["ema"] * 0.9 + 0.1
    o.state["n"] += 1
    return x * o.state["ema"] - o.state["n"]


def by_methods(o, x):
    o.state["ema"] = o.state.get("ema", 0.0) * 0.9
    o.scale = getattr(o, "scale", 1.0) + 0.25
    return x * o.state["ema"] + o.scale


def entry_of_an_int(o, x):
    o.state[3] += 0.25
    return x / o.state[3]


def element(o, x):
    o.row[0] *= 0.75
    o.row[1] += 2
    return x * o.row[0] + o.row[1]


def branching(o, x):
    o.scale *= 0.8
    return x * 2 if o.scale > 1.0 else x - o.scale


def read_only(o, x):
    return x * o.scale + o.state["n"]


def powers(o, x):
    o.scale = o.scale**0.5 + o.scale // 3 - o.scale % 0.7
    return x + o.scale


def becomes_complex(o, x):
    o.scale = o.scale - 1.5
    return x * abs(o.scale**0.5)


def becomes_an_int(o, x):
    o.scale = o.scale + 0.5 if o.scale < 6 else 3
    return x * o.scale


def printed(o, x):
    o.scale += 1.0
    o.text = f"{o.scale:.2f}"
    return x * o.scale


def schedule(i, o):
    o.scale, o.state["n"] = 0.5 / (i + 1), 10 + i


PLACES = [
    (attribute, None, 3),
    (entry, None, 3),
    (by_methods, None, 3),
    (entry_of_an_int, None, 3),
    (element, None, 3),
    (branching, None, 5),
    (read_only, schedule, 6),
    (attribute, schedule, 6),
    (powers, None, 8),
    (becomes_complex, None, 24),
    (becomes_an_int, None, 24),
    (printed, None, None),
]


@OPTIONS
@pytest.mark.parametrize("f, between, most", PLACES, ids=lambda a: getattr(a, "__name__", None))
def test_numbers_in_places_are_eagers(f, between, most, options):
    plain, other = Decay(), Decay()
    compiled = thunder.jit(lambda x: f(other, x), **options)
    for i in range(24):
        if between is not None:
            between(i, plain), between(i, other)
        x = torch.arange(6.0) + i
        torch.testing.assert_close(compiled(x), f(plain, x), msg=lambda m, i=i: f"call {i}: {m}")
        assert repr(vars(other)) == repr(vars(plain)), i
    if most is not None:
        assert thunder.cache_misses(compiled) <= most, thunder.explain_miss(compiled)


def test_globals_and_closures():
    def make():
        weight, n = 4.0, 2

        def f(x):
            nonlocal weight, n
            global SCALE
            weight *= 0.75
            n += 1
            SCALE *= 0.5
            STATE["loss"] *= 0.9
            return x * weight + n - SCALE * STATE["loss"]

        return f

    global SCALE
    results = []
    for f in (make(), thunder.jit(make())):
        SCALE, STATE["loss"] = 3.0, 8.0
        results.append([f(torch.ones(2) * i) for i in range(20)] + [SCALE, STATE["loss"]])
        if f is not results and hasattr(f, "__wrapped__"):
            assert thunder.cache_misses(f) <= 3
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want)


def test_a_learning_rate_that_a_scheduler_sets():
    torch.manual_seed(0)
    grads = torch.randn(5)
    values = []
    for compile_it in (False, True):
        weights = torch.ones(5)
        parameters = {"lr": 0.1}

        def step(grad, weights=weights, parameters=parameters):
            weights.sub_(grad * parameters["lr"])
            return weights.sum()

        f = thunder.jit(step) if compile_it else step
        for i in range(30):
            parameters["lr"] = 0.1 / (i + 1)
            f(grads)
        values.append(weights)
        if compile_it:
            assert thunder.cache_misses(f) <= 5, thunder.explain_miss(f)
    torch.testing.assert_close(values[1], values[0])


def test_a_number_that_is_set_to_what_it_was_stays_a_constant():
    class Model:
        pass

    model = Model()
    model.scale = 0.5

    def f(x):
        y = x * model.scale
        model.scale = 0.5
        return y

    compiled = thunder.jit(f)
    for _ in range(4):
        compiled(torch.ones(2))
    assert thunder.cache_misses(compiled) == 1


def make_counts_its_calls():
    class CountsItsCalls(nn.Module):
        calls, by_object = 0, 2

        def forward(self, x):
            CountsItsCalls.calls += 1
            type(self).by_object += 1
            if CountsItsCalls.calls % 7 == 0:
                x = x + self.by_object
            return x * CountsItsCalls.calls - self.calls

    return CountsItsCalls()


def test_attributes_of_a_class():
    models = []

    def make():
        models.append(make_counts_its_calls())
        return models[-1]

    check(make, most=5)
    assert [(type(m).calls, type(m).by_object) for m in models] == [(24, 26)] * 2


def test_an_attribute_of_a_class_that_an_object_gets_for_itself():
    model = make_counts_its_calls()

    def f(x):
        return x * model.by_object

    compiled = thunder.jit(f)
    x = torch.ones(2)
    for i in range(6):
        type(model).by_object = 3 + i
        torch.testing.assert_close(compiled(x), f(x))
    assert thunder.cache_misses(compiled) <= 3
    model.by_object = 50
    torch.testing.assert_close(compiled(x), f(x))
    del model.by_object
    torch.testing.assert_close(compiled(x), f(x))


def test_entries_of_kinds_of_dicts():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.rows = collections.Counter(), collections.defaultdict(int)
            self.seen = collections.OrderedDict(all=5)

        def forward(self, x):
            self.calls["all"] += 1
            self.rows["all"] += x.shape[0]
            self.seen["all"] += 1
            return x * self.calls["all"] + self.rows["all"] * self.seen["all"]

    check(Counts, most=4)
