"""The interpreter of bytecode by itself: what other code can see of interpreted frames is what CPython shows."""

import _thread
import contextlib
import gc
import inspect
import signal
import subprocess
import sys
import threading
import time

import pytest
from interpreter_failures import in_a_call, in_a_group, interpret, raised
from plain_python import PROGRAMS, slowdown

from thunder import _C

# ---- frames ---------------------------------------------------------------------------------------------------------


def test_frames_are_where_they_would_be():
    def depth():
        return len(inspect.stack(0))

    def names():
        f, found = sys._getframe(), []
        while f is not None:
            found.append((f.f_code.co_name, f.f_lineno))
            f = f.f_back
        return found

    def below():
        return [names(), depth(), *map(lambda _: names(), [0])]

    natively, interpreted = below(), interpret(below)
    here, there = natively[0], interpreted[0]
    assert here[:2] == there[:2]
    assert interpreted[1] - len(there) == natively[1] - len(here)
    assert [n for n, _ in interpreted[2][:3]] == ["names", "<lambda>", "below"]


def test_locals_globals_and_lines():
    def inside(a, b=2, *c, **d):
        e = [a]
        first = dict(locals())
        del e
        f = lambda: a
        return first, sorted(locals()), globals() is f.__globals__, sys._getframe().f_lineno, vars()["b"]

    assert interpret(inside, 1, 5, 6, k=7) == inside(1, 5, 6, k=7)


def test_exec_eval_and_class_bodies():
    def inside():
        k = 3
        made = eval("k + 1")
        scope = {}
        exec("def g(n):\n  return [i * n for i in range(3)]", scope)

        class Body:
            here = sorted(n for n in locals() if not n.startswith("__"))
            there = k

        return made, scope["g"](k), Body.here, Body.there

    assert interpret(inside) == inside()


def test_frames_of_generators():
    def numbers():
        yield sys._getframe().f_back.f_code.co_name
        yield sys._getframe().f_back.f_code.co_name

    def consumer(it):
        return next(it)

    it = numbers()
    assert interpret(consumer, it) == "consumer"
    assert it.gi_frame.f_lineno and it.gi_running is False
    assert interpret(consumer, it) == "consumer"


# ---- generators -----------------------------------------------------------------------------------------------------


def counting():
    total, log = 0, []
    try:
        while True:
            try:
                got = yield total
            except KeyError as e:
                log.append(e.args)
                got = 100
            total += got or 1
    finally:
        log.append("closed")
        counting.log = log


@pytest.mark.parametrize("pattern", range(16))
def test_generators_resumed_in_turns(pattern):
    """Each resumption is interpreted or native, by the bits of `pattern`."""
    native = counting()
    expected = [next(native), native.send(5), native.throw(KeyError("k")), native.send(None)]
    native.close()
    log = counting.log

    it = interpret(counting) if pattern & 1 else counting()
    steps = [lambda: next(it), lambda: it.send(5), lambda: it.throw(KeyError("k")), lambda: it.send(None)]
    got = [interpret(step) if pattern >> i & 1 else step() for i, step in enumerate(steps)]
    interpret(it.close) if pattern & 2 else it.close()
    assert (got, counting.log) == (expected, log)


def test_generators_that_delegate_in_turns():
    def inner():
        got = yield 1
        got = yield got * 2
        return got * 3

    def outer():
        value = yield from inner()
        yield value
        return [*inner_list()]

    def inner_list():
        yield from (i * i for i in range(3))

    def run(*ways):
        it = outer()
        steps = [lambda: next(it), lambda: it.send(4), lambda: it.send(5)]
        out = [way(step) for way, step in zip(ways, steps, strict=True)]
        with pytest.raises(StopIteration) as stopped:
            next(it)
        return out, stopped.value.value

    natively = lambda f: f()
    for ways in ((interpret, natively, interpret), (natively, interpret, natively), (interpret,) * 3):
        assert run(*ways) == run(natively, natively, natively)


def test_an_abandoned_generator_is_closed():
    closed = []

    def numbers():
        try:
            yield 1
        finally:
            closed.append(1)

    def take_one():
        return next(numbers())

    assert interpret(take_one) == 1
    assert closed == [1]


# ---- limits, signals, threads ---------------------------------------------------------------------------------------


def test_recursion_error_is_caught_and_over():
    def deep(n):
        return deep(n + 1)

    def inside():
        for _ in range(3):
            with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
                deep(0)
        return "over"

    assert interpret(inside) == "over"

    def reached(n=0):
        try:
            return reached(n + 1)
        except RecursionError:
            return n

    assert abs(interpret(reached) - reached()) < 20


def test_a_higher_recursion_limit():
    """CPython's stack would hold more, ours must not run over."""
    text = """
import sys, threading
from thunder import _C
def deep(n): return deep(n - 1) + 1 if n else 0
sys.setrecursionlimit(20_000)
try:
    print(_C.interpret(deep, (10_000,)))
except RecursionError:
    print(10_000)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "10000", done.stderr[-500:]


def test_keyboard_interrupt_in_a_loop():
    def endless():
        try:
            while True:
                pass
        except KeyboardInterrupt:
            return "stopped"

    timer = threading.Timer(0.1, _thread.interrupt_main)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        timer.start()
        assert interpret(endless) == "stopped"
    finally:
        signal.signal(signal.SIGINT, before)
    timer.join()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_signal_handlers_run():
    calls = []
    before = signal.signal(signal.SIGALRM, lambda *_: calls.append(sys._getframe(1).f_code.co_name))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:

        def wait():
            until = time.monotonic() + 10
            while not calls and time.monotonic() < until:
                sum(i for i in range(10))

        interpret(wait)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert calls


def test_other_threads_run_meanwhile():
    state = {"stop": False, "n": 0}

    def count():
        while not state["stop"]:
            state["n"] += 1

    def wait():
        start, until = state["n"], time.monotonic() + 10
        while state["n"] < start + 1000 and time.monotonic() < until:
            pass
        return state["n"] - start

    other = threading.Thread(target=count)
    other.start()
    try:
        assert interpret(wait) >= 1000
    finally:
        state["stop"] = True
        other.join()


def test_threads_that_interpret_at_once():
    def work(n):
        return sum(sorted([i % 7 for i in range(n)], key=lambda v: -v)) + len([*(c for c in "abc")])

    results = {}

    def run(k):
        results[k] = [interpret(work, 500 + k) for _ in range(20)]

    threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: [work(500 + k)] * 20 for k in range(6)}


def test_a_thread_started_inside_runs_natively():
    def inside():
        got = []
        t = threading.Thread(target=lambda: got.append(_C.interpret is not None))
        t.start()
        t.join()
        return got

    assert interpret(inside) == [True]


def test_interpreted_within_interpreted():
    def inner(n):
        return [i * n for i in range(3)]

    def outer():
        return _C.interpret(inner, (2,)), inner(3)

    assert interpret(outer) == outer()
    assert raised(interpret, lambda: _C.interpret(in_a_call, ()))[0] is ValueError
    assert interpret(inner, 1) == [0, 1, 2]


# ---- memory ---------------------------------------------------------------------------------------------------------


class Counted:
    alive = 0

    def __init__(self):
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1


def busy(c, n=4, *args, key=None, **more):
    """Makes frames, cells, generators, classes, exceptions, and leaves in many ways."""
    cell = [c]

    def inner(d=c):
        return lambda: (cell, d)

    class Local:
        held = c

        def __init__(self):
            self.it = (x for x in [c, cell])

        def get(self):
            return super().__getattribute__("it")

    it = Local().get()
    next(it)
    try:
        with contextlib.suppress(KeyError):
            {}[c]
        _, *b = [c, c, c]
        raise ValueError(c)
    except ValueError as e:
        kept = e.args
    match kept:
        case (Counted() as found,):
            pass
    text = f"{n!r:>5}{key}"
    for _ in range(n):
        if n < 0:
            break
    return [inner()()[0], found, b, {**more, "k": c}, {c for _ in range(2)}, text]


def test_nothing_leaks():
    """Objects, frames and reference counts are where they were after 1,000 calls."""
    c, constant = Counted(), object()
    args = (c, 3, constant)

    def run(n):
        for _ in range(n):
            _C.interpret(busy, args, {"key": constant, "z": c})
            with contextlib.suppress(ValueError):
                _C.interpret(in_a_call, ())
            with contextlib.suppress(ExceptionGroup):
                _C.interpret(in_a_group, ())

    def measured():
        gc.collect()
        watched = (c, constant, None, True, busy, busy.__code__, ValueError, Counted)
        return len(gc.get_objects()), [sys.getrefcount(o) for o in watched], Counted.alive

    run(20)
    objects, references, alive = measured()
    run(1000)
    objects_after, references_after, alive_after = measured()
    assert abs(objects_after - objects) < 50
    counts = (references, references_after)
    assert all(abs(a - b) < 50 for a, b in zip(*counts, strict=True)), counts
    assert alive == alive_after == 1


def test_frames_are_collected():
    def cycle():
        c = Counted()
        me = sys._getframe()
        return c is None or me is None

    before = Counted.alive
    for _ in range(50):
        interpret(cycle)
    gc.collect()
    assert Counted.alive == before


def test_locals_die_when_the_frame_does():
    def inside():
        c = Counted()
        alive = Counted.alive
        del c
        return alive - Counted.alive

    def leaves():
        c = Counted()
        return c is None

    assert interpret(inside) == 1
    interpret(leaves)
    assert Counted.alive == 0


def test_code_that_is_gone():
    """Decoded instructions go with their code; new code at the same address is decoded anew."""
    for i in range(200):
        scope = {}
        exec(f"def f(): return [{i} + n for n in range(2)]", scope)
        assert interpret(scope["f"]) == [i, i + 1]


# ---- speed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_speed(f):
    """At most 30 times CPython's time; it is about 3 where nothing else runs on the machine."""

    assert f(100) == interpret(f, 100)
    assert slowdown(f) < 30


def test_a_generator_that_is_closed_before_its_code_was_interpreted():
    closed = []

    def numbers():
        try:
            yield 1
        finally:
            closed.append(True)

    generators = [numbers()]
    next(generators[0])
    _C.interpret(generators.clear, ())
    _C.interpret(lambda: generators.clear(), ())
    generators.append(numbers())
    next(generators[0])
    _C.interpret(lambda: generators.pop() and None, ())
    assert closed == [True, True]
