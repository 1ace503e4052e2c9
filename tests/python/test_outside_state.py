"""What C code keeps: NumPy's arrays, bytearrays, context variables, random numbers, settings of PyTorch's.

Each program runs in two equal worlds, eager and compiled, with changes in between: it sees every change, and all that
it changes is changed in each call.
"""

import array
import contextlib
import contextvars
import ctypes
import datetime
import decimal
import gc
import hashlib
import queue
import random
import sqlite3
import threading
import time
import types
import warnings
import weakref

import numpy as np
import pytest
import torch
from eager_checks import check_left_to_eager

import thunder


class Thing:
    pass


def thing(**attributes):
    made = Thing()
    made.__dict__.update(attributes)
    return made


def world():
    names = types.SimpleNamespace(
        a=np.ones(2), grid=np.arange(6.0).reshape(2, 3), objects=np.array([1, 2.5], dtype=object),
        days=np.array(["2020-01-01"], dtype="datetime64[D]"), raw=bytearray(b"abc"), seen=bytearray(b"abc"),
        numbers=array.array("d", [1, 2]),
        count=ctypes.c_int(3), pair=(ctypes.c_double * 2)(1, 2), local=threading.local(),
        var=contextvars.ContextVar("var", default=1.0), unset=contextvars.ContextVar("unset"),
        random=random.Random(3), old=np.random.RandomState(3), new=np.random.default_rng(3), o=thing(k=1.0, j=2),
        target=thing(k=3.0), d={"a": 1.0},
    )  # fmt: skip
    names.local.k = 1.0
    names.view = memoryview(names.seen)
    names.ref = weakref.ref(names.target)
    names.shown = types.MappingProxyType(names.d)
    names.items = names.d.items()
    names.counts = lambda x, k=1: x
    return names


def set_attribute(o, name, value):
    setattr(o, name, value)
    return 0


# A function of a world and a tensor, and changes of the world between its calls.
READS = {
    "array": (lambda s, x: x * float(s.a.mean()), lambda s: s.a.__setitem__(slice(None), 5)),
    "item of an array": (lambda s, x: x * float(s.a[0]), lambda s: s.a.__setitem__(0, 5)),
    "number of an array": (lambda s, x: x * s.a[0].item(), lambda s: s.a.__setitem__(0, 5)),
    "an array's list": (lambda s, x: x + sum(s.a.tolist()), lambda s: s.a.fill(3)),
    "iterated array": (lambda s, x: x + sum(float(v) for v in s.a), lambda s: s.a.fill(3)),
    "function of an array": (lambda s, x: x * float(np.sum(s.a)), lambda s: s.a.fill(3)),
    "arithmetic of arrays": (lambda s, x: x * float((s.a * 2 + 1).sum()), lambda s: s.a.fill(3)),
    "slice of an array": (lambda s, x: x * float(s.grid[1:, ::2].sum()), lambda s: s.grid.__setitem__((1, 2), 9)),
    "truth of an array": (lambda s, x: x if s.a.all() else -x, lambda s: s.a.fill(0)),
    "sizes of an array": (lambda s, x: x * s.grid.shape[0], lambda s: set_attribute(s.grid, "shape", (3, 2))),
    "objects": (lambda s, x: x * s.objects[1], lambda s: s.objects.__setitem__(1, 7.5)),
    "days": (lambda s, x: x * s.days.astype(int)[0].item(), lambda s: s.days.__setitem__(0, "2021-01-01")),
    "bytearray": (lambda s, x: x * s.raw[0], lambda s: s.raw.__setitem__(0, 7)),
    "length of a bytearray": (lambda s, x: x * len(s.raw), lambda s: s.raw.__delitem__(0)),
    "bytes of a bytearray": (lambda s, x: x * bytes(s.raw)[1], lambda s: s.raw.__setitem__(1, 7)),
    "memoryview": (lambda s, x: x * s.view[0], lambda s: s.view.__setitem__(0, 7)),
    "numbers": (lambda s, x: x * s.numbers[1], lambda s: s.numbers.__setitem__(1, 7)),
    "sum of numbers": (lambda s, x: x * sum(s.numbers), lambda s: s.numbers.append(7)),
    "ctypes": (lambda s, x: x * s.count.value, lambda s: set_attribute(s.count, "value", 9)),
    "ctypes array": (lambda s, x: x * s.pair[1], lambda s: s.pair.__setitem__(1, 9)),
    "threading.local": (lambda s, x: x * s.local.k, lambda s: set_attribute(s.local, "k", 5.0)),
    "no attribute": (lambda s, x: x * getattr(s.local, "j", 2), lambda s: set_attribute(s.local, "j", 5.0)),
    "ContextVar": (lambda s, x: x * s.var.get(), lambda s: s.var.set(5.0)),
    "ContextVar's default": (lambda s, x: x * s.unset.get(2.0), lambda s: s.unset.set(5.0)),
    "__dict__": (lambda s, x: x * s.o.k, lambda s: set_attribute(s.o, "__dict__", {"k": 5.0})),
    "__class__": (
        lambda s, x: x * (2 if type(s.o).__name__ == "Thing" else 3),
        lambda s: set_attribute(s.o, "__class__", type("Other", (Thing,), {})),
    ),
    "weak reference": (lambda s, x: x * (s.ref().k if s.ref() else 9), lambda s: delattr(s, "target") or gc.collect()),
    "mapping proxy": (lambda s, x: x * s.shown["a"], lambda s: s.d.update(a=5.0)),
    "get of a mapping proxy": (lambda s, x: x * s.shown.get("b", 2), lambda s: s.d.update(b=5.0)),
    "view of a dict": (lambda s, x: x * sum(v for _, v in s.items), lambda s: s.d.update(b=5.0)),
    "name of a function": (lambda s, x: x * len(s.counts.__name__), lambda s: set_attribute(s.counts, "__name__", "f")),
    "state of random numbers": (lambda s, x: x * s.random.getstate()[1][1], lambda s: s.random.seed(1)),
}


@pytest.mark.parametrize("f, change", READS.values(), ids=list(READS))
def test_changes_are_seen(f, change):
    results = []
    for compile_ in (lambda f: f, thunder.jit):
        s = world()
        run = compile_(lambda x, s=s: f(s, x))
        out = []
        for step in range(4):
            if step == 2:
                change(s)
            out.append(run(torch.ones(2)).tolist())
        results.append(out)
    assert results[0] == results[1]
    assert results[0][1] != results[0][2]


def resets(s):
    token = s.var.set(3.0)
    s.var.reset(token)


def state_of(s):
    """What a world holds, to be compared."""
    local = vars(s.local)
    return (
        s.a.tolist(), s.grid.tolist(), s.objects.tolist(), bytes(s.raw + s.seen), s.numbers.tolist(), s.count.value,
        list(s.pair), {k: str(v) for k, v in local.items()}, str(s.var.get()), str(s.unset.get(None)),
        s.random.getstate(), s.old.get_state(legacy=False)["state"]["pos"], s.new.bit_generator.state["state"],
        type(s.o).__name__,
        {k: str(v) for k, v in vars(s.o).items()}, s.counts.__defaults__, s.counts.__name__,
    )  # fmt: skip


WRITES = {
    "counts in an array": lambda s, x: s.a.__setitem__(0, s.a[0] + 1) or x * float(s.a[0]),
    "array in place": lambda s, x: np.add(s.a, 1, out=s.a) is None or x,
    "row of an array": lambda s, x: s.grid[1].__setitem__(slice(None), 7) or x,
    "sorted array": lambda s, x: s.grid.T[::-1].sort(0) or x,
    "copied into": lambda s, x: np.copyto(s.a, 4) or x,
    "bytearray": lambda s, x: s.raw.append(7) or x * len(s.raw),
    "view": lambda s, x: s.view.__setitem__(0, (s.view[0] + 1) % 256) or x,
    "numbers": lambda s, x: s.numbers.extend([1.5]) or x * s.numbers[-1],
    "ctypes": lambda s, x: set_attribute(s.count, "value", s.count.value + 1) or x * s.count.value,
    "threading.local": lambda s, x: set_attribute(s.local, "k", s.local.k + 1) or x * s.local.k,
    "tensor in a local": lambda s, x: set_attribute(s.local, "t", x * 2) or x,
    "new in a local": lambda s, x: set_attribute(s.local, "n", getattr(s.local, "n", 0) + 1) or x,
    "ContextVar": lambda s, x: x * s.var.set(s.var.get() + 1).var.get(),
    "tensor in a variable": lambda s, x: s.unset.set(x * 2) and x,
    "variable set and reset": lambda s, x: resets(s) or x,
    "random": lambda s, x: x * s.random.random(),
    "seed": lambda s, x: s.random.seed(7) or x * s.random.random() * s.random.gauss(0, 1),
    "shuffled": lambda s, x: s.random.shuffle(s.numbers) or x * s.numbers[0],
    "NumPy's old": lambda s, x: x * s.old.rand(),
    "NumPy's new": lambda s, x: x * s.new.random(),
    "__dict__": lambda s, x: set_attribute(s.o, "__dict__", {"k": s.o.k + 1, "t": x * 2}) or x * s.o.k,
    "__class__": lambda s, x: set_attribute(s.o, "__class__", Derived) or x * s.o.twice,
    "defaults": lambda s, x: set_attribute(s.counts, "__defaults__", (2,)) or s.counts(x),
    "name": lambda s, x: set_attribute(s.counts, "__name__", "g") or s.counts(x),
}


class Derived(Thing):
    @property
    def twice(self):
        return self.k * 2


@pytest.mark.parametrize("cache", ["constant values", "symbolic values"])
@pytest.mark.parametrize("f", WRITES.values(), ids=list(WRITES))
def test_writes_are_made_in_every_call(f, cache):
    out = []
    for compile_ in (lambda f: f, lambda f: thunder.jit(f, cache=cache)):
        s = world()
        run = compile_(lambda x, s=s: f(s, x))
        steps = []
        for _ in range(4):
            steps += [run(torch.ones(2)).tolist(), state_of(s)]
        out.append(steps)
    for eager, compiled in zip(*out, strict=True):
        assert eager == compiled


# States of C code that nobody can compare or put back.
UNSEEN = {
    "queue": (queue.SimpleQueue, lambda o, x: o.put(1) or x * o.qsize()),
    "hash": (hashlib.sha256, lambda o, x: o.update(b"a") or x * o.digest()[0]),
    "database": (
        lambda: sqlite3.connect(":memory:"),
        lambda o, x: x * len(o.execute("create table if not exists t(x)").execute("insert into t values (1)").connection
                         .execute("select * from t").fetchall()),
    ),
    "attribute": (decimal.Context, lambda o, x: set_attribute(o, "prec", o.prec + 1) or x * o.prec),
}  # fmt: skip


@pytest.mark.parametrize("make, f", UNSEEN.values(), ids=list(UNSEEN))
def test_what_cannot_be_seen_is_left_to_eager(make, f):
    objects = make(), make()
    compiled = thunder.jit(lambda x: f(objects[1], x))
    for _ in range(4):
        assert compiled(torch.ones(2)).tolist() == f(objects[0], torch.ones(2)).tolist()
    assert thunder.compile_stats(compiled)["eager_calls"]


def test_what_is_only_read_is_compiled_once():
    s = world()
    f = thunder.jit(lambda x: x * float(s.a.mean()) * s.raw[0] * s.local.k * s.var.get() * s.count.value)
    for _ in range(3):
        f(torch.ones(2))
    assert thunder.cache_misses(f) == 1 and thunder.compile_stats(f)["not_cached"] == ""
    s.a[0] = 7
    f(torch.ones(2))
    assert "numpy.ndarray changed" in thunder.explain_miss(f)


def test_scratch_memory_is_compiled_twice():
    """The program that finds what it leaves there is kept."""
    s = world()

    def f(x):
        s.a[:] = 4
        return x * float(s.a.sum())

    compiled = thunder.jit(f)
    assert [compiled(torch.ones(1)).item() for _ in range(4)] == [8] * 4
    assert thunder.cache_misses(compiled) == 2


@pytest.mark.parametrize("of", [lambda a: -a, lambda a: +a, lambda a: abs(a)], ids=["neg", "pos", "abs"])
def test_operators_with_one_operand_read_an_array(of):
    s = world()
    f = thunder.jit(lambda x: x + float(of(s.a)[0]))
    for value in (1.0, 2.0):
        s.a[:] = value
        assert f(torch.zeros(1)).item() == float(of(s.a)[0])


def test_why_a_program_is_not_kept():
    s = world()
    f = thunder.jit(lambda x: x * np.random.rand(2).sum())
    f(torch.ones(1))
    assert "random" in thunder.compile_stats(f)["not_cached"]
    g = thunder.jit(lambda x: s.a.__setitem__(0, s.a[0] + 1) or x)
    g(torch.ones(1))
    assert "the program changes a numpy.ndarray" in thunder.compile_stats(g)["not_cached"]
    assert "test_outside_state.py" in thunder.compile_stats(g)["not_cached"]


def test_a_weak_reference_dies():
    target = thing(k=3.0)
    ref = weakref.ref(target)
    f = thunder.jit(lambda x: x * (ref().k if ref() is not None else 9))
    assert f(torch.ones(1)).item() == 3
    del target
    gc.collect()
    assert f(torch.ones(1)).item() == 9


class Referring(torch.nn.Module):
    """A module that compares its parameter with what it was, as PyTorch's recurrent layers do."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2,), 3.0))
        self.ref = weakref.ref(self.weight)

    def forward(self, x):
        if self.ref() is None:
            return x
        return x * self.weight if self.ref() is self.weight else x - self.weight


def test_a_weak_reference_to_a_parameter():
    for compile_ in (lambda m: m, thunder.jit):
        m = Referring()
        f = compile_(m)
        results = [f(torch.ones(2)).tolist() for _ in range(3)]
        assert compile_ is not thunder.jit or thunder.cache_misses(f) == 1
        before = m.weight
        m.weight = torch.nn.Parameter(torch.full((2,), 5.0))
        results.append(f(torch.ones(2)).tolist())
        m.weight = before  # what it refers to is there again
        results += [f(torch.ones(2)).tolist() for _ in range(2)]
        m.weight = torch.nn.Parameter(torch.full((2,), 7.0))
        del before
        gc.collect()
        alive = m.ref() is not None
        results.append(f(torch.ones(2)).tolist())
        assert results == [[3.0, 3.0]] * 3 + [[-4.0, -4.0]] + [[3.0, 3.0]] * 2 + [[1.0, 1.0]]
        assert m.ref() is None and (compile_ is thunder.jit or not alive)


def test_a_weak_reference_to_a_tensor_that_nobody_else_shows():
    t = torch.full((2,), 3.0)
    ref = weakref.ref(t)
    f = thunder.jit(lambda x: x if ref() is None else x * ref())
    assert f(torch.ones(2)).tolist() == [3, 3]
    assert "weak reference" in thunder.compile_stats(f)["not_cached"]
    del t
    gc.collect()
    assert f(torch.ones(2)).tolist() == [1, 1]


def test_modules_made_inside_after_dynamo_has_patched_their_classes():
    guard = pytest.importorskip("torch._dynamo.mutation_guard")
    weights = torch.ones(3, requires_grad=True)

    def f(x):
        loss = torch.nn.CrossEntropyLoss(weight=weights.detach(), label_smoothing=0.1)
        return loss(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Identity())(x), torch.tensor([0, 2]))

    compiled, x = thunder.jit(f), torch.randn(2, 3)
    first = compiled(x)
    guard.install_generation_tagging_init()  # as the first torch.compile() of a process does
    made = len(guard.GenerationTracker.generation_values.values)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), first)
    assert thunder.cache_misses(compiled) == 2
    gc.collect()
    assert len(guard.GenerationTracker.generation_values.values) <= made


def test_a_local_of_another_thread():
    s = world()
    f = thunder.jit(lambda x: x * s.local.k)
    assert f(torch.ones(1)).item() == 1
    results = []

    def other():
        s.local.k = 4.0
        results.append(f(torch.ones(1)).item())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert results == [4] and f(torch.ones(1)).item() == 1


def test_clocks_run():
    f = thunder.jit(lambda x: x + time.perf_counter())
    assert f(torch.zeros(1, dtype=torch.float64)).item() < f(torch.zeros(1, dtype=torch.float64)).item()


# ---- what sharp_edges tells of ---------------------------------------------------------------------------------------

RANDOM, NEW = random.Random(1), np.random.default_rng(1)
SHARP = {
    "getstate": lambda x: x * len(RANDOM.getstate()),
    "np.random.shuffle": lambda x: NEW.shuffle([1, 2]) or x,
    "np.random": lambda x: x * np.random.rand(2).sum(),
    "time": lambda x: x * time.time(),
    "perf_counter": lambda x: x * time.perf_counter(),
    "datetime": lambda x: x * datetime.datetime.now().year,
    "open": lambda x: x * len(open(__file__).read()),
    "print": lambda x: print("text") or x,
}


@pytest.mark.parametrize("f", SHARP.values(), ids=list(SHARP))
def test_sharp_edges_are_told(f):
    with pytest.raises(RuntimeError, match=r"\[sharp_edges\]"):
        thunder.jit(f, sharp_edges="error")(torch.ones(1))
    with pytest.warns(UserWarning, match=r"\[sharp_edges\]"):
        thunder.jit(f, sharp_edges="warn")(torch.ones(1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thunder.jit(f)(torch.ones(1))


# ---- settings of PyTorch's -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def as_they_were():
    cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = (
        torch.are_deterministic_algorithms_enabled(), torch.get_num_threads(), torch.is_grad_enabled(),
        torch.get_default_dtype(), torch.get_float32_matmul_precision(), cudnn.benchmark, cuda.allow_tf32,
        torch.backends.mkldnn.enabled, torch.is_anomaly_enabled(), torch.is_autocast_enabled("cpu"),
    )  # fmt: skip
    try:
        # PyTorch's own tests, of which other files take parts, forbid it to set some of these.
        with torch.backends.__allow_nonbracketed_mutation():
            yield
    finally:
        deterministic, threads, grad, dtype, precision, benchmark, tf32, mkldnn, anomaly, autocast = before
        torch.use_deterministic_algorithms(deterministic)
        torch.set_num_threads(threads)
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
        torch.set_float32_matmul_precision(precision)
        torch._C._set_cudnn_benchmark(benchmark)
        cuda.allow_tf32 = tf32
        torch._C._set_mkldnn_enabled(mkldnn)
        torch.autograd.set_detect_anomaly(anomaly)
        torch.set_autocast_enabled("cpu", autocast)


def settings():
    return (
        torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype(),
        torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark, torch.backends.cuda.matmul.allow_tf32,
        torch.is_anomaly_enabled(), torch.is_autocast_enabled("cpu"),
    )  # fmt: skip


def allow_tf32():
    torch.backends.cuda.matmul.allow_tf32 = True


def benchmark():
    torch.backends.cudnn.benchmark = True


SETTINGS = {
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "warn only": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "threads": lambda: torch.set_num_threads(1 + torch.get_num_threads() % 2),
    "gradients": lambda: torch.set_grad_enabled(False),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "precision": lambda: torch.set_float32_matmul_precision("medium"),
    "benchmark": benchmark,
    "tf32": allow_tf32,
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
}


@pytest.mark.parametrize("again", [False, True], ids=["set in each call", "left as it is"])
@pytest.mark.parametrize("switch", SETTINGS.values(), ids=list(SETTINGS))
def test_settings_are_made_in_every_call(switch, again):
    def f(x):
        switch()
        return x * 2 + torch.ones(2), torch.ones(1).dtype, torch.get_num_threads(), (x * 1).requires_grad

    out = []
    for run in (f, thunder.jit(f)):
        steps = []
        with as_they_were():
            for _ in range(3):
                with contextlib.nullcontext() if again else as_they_were():
                    y, *others = run(torch.ones(2, requires_grad=True))
                    steps.append((y.dtype, y.requires_grad, others, settings()))
        out.append(steps)
    assert out[0] == out[1]


HAS_DEPTHWISE_KERNEL = hasattr(torch._C, "_get_cudnn_depthwise_kernel")  # a text, in newer releases


def cudnn_flags():
    # As `with torch.backends.cudnn.flags(enabled=False)`, which libraries put around a loss.
    before = torch.backends.cudnn.set_flags(_enabled=False, **depthwise_kernel("cudnn"))
    torch.backends.cudnn.set_flags(_enabled=before[0], **depthwise_kernel(before[-1]))


def depthwise_kernel(name):
    return {"_depthwise_kernel": name} if HAS_DEPTHWISE_KERNEL else {}


def precision():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("switch", [cudnn_flags, precision])
def test_settings_whose_value_is_text_are_guards(switch):
    def f(x):
        switch()
        return x * 2

    def all_settings():
        return settings(), HAS_DEPTHWISE_KERNEL and torch._C._get_cudnn_depthwise_kernel()

    compiled = thunder.jit(f)
    with as_they_were():
        before = all_settings()
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
        assert all_settings() == before
        stats = thunder.compile_stats(compiled)
        assert (stats.cache_misses, stats.not_cached) == (1, "")
        torch.set_float32_matmul_precision("high")
        compiled(torch.ones(2))
        assert torch.get_float32_matmul_precision() == "high"
    assert thunder.cache_misses(compiled) == (2 if switch is precision else 1)


def inference(x):
    with torch.inference_mode():
        x * 2


def inference_around(x):
    with torch.inference_mode(), torch.no_grad():
        x * 2


def gradients_inside(x):
    with torch.inference_mode(), torch.enable_grad():
        x * 2


def inference_inside(x):
    with torch.no_grad(), torch.inference_mode():
        x * 2


MODES = [inference, inference_around, gradients_inside, inference_inside]


@pytest.mark.parametrize("raises", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("mode", MODES, ids=lambda f: f.__name__)
def test_modes_that_end_inside_leave_gradients_on(mode, raises):
    def f(x):
        mode(x)
        if raises:
            raise ValueError
        return x * 3

    compiled = thunder.jit(f)
    for _ in range(2):
        x = torch.ones(2, requires_grad=True)
        with pytest.raises(ValueError) if raises else contextlib.nullcontext():
            assert compiled(x).requires_grad
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    assert raises or thunder.cache_misses(compiled) == 1


def test_a_setting_that_is_taken_back():
    def f(x):
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        y = x * torch.get_num_threads()
        torch.set_num_threads(before)
        return y

    compiled = thunder.jit(f)
    with as_they_were():
        torch.set_num_threads(2)
        assert [compiled(torch.ones(1)).item() for _ in range(3)] == [1, 1, 1]
        assert torch.get_num_threads() == 2
    assert thunder.cache_misses(compiled) == 1


@pytest.mark.parametrize("setter", [
    lambda: torch.set_default_device(None), lambda: torch.set_flush_denormal(False),
])  # fmt: skip
def test_settings_that_no_program_changes(setter):
    def f(x):
        setter()
        return x * 1

    why = r"^\[torch.set_.*outside of it\n  at .*test_outside_state.py"
    check_left_to_eager(f, torch.ones(1), why=why)


class Mapped:
    """Its attributes have other names, as in configs of Hugging Face's."""

    names = {"size": "width"}

    def __init__(self):
        self.width = 3

    def __getattribute__(self, key):
        if key != "names" and key in super().__getattribute__("names"):
            key = super().__getattribute__("names")[key]
        return super().__getattribute__(key)


def test_a_method_of_objects_under_one_of_python_code():
    config = Mapped()
    f = thunder.jit(lambda x: x * config.size)
    for width in (3, 5):
        config.width = width
        assert f(torch.ones(2)).tolist() == [width] * 2
    assert not thunder.compile_stats(f)["eager_calls"]
