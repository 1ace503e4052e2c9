"""Plain Python, and how much longer the interpreter of bytecode takes for it than CPython."""

import time

from thunder import _C


class Point:
    scale = 2

    def __init__(self, x):
        self.x = x

    def scaled(self):
        return self.x * self.scale


def arithmetic(n):
    total = 0
    for i in range(n):
        total += i * 3 % 7 - (i >> 1)
    return total


def calls(n):
    def add(a, b):
        return a + b

    total = 0
    for i in range(n):
        total = add(total, i)
    return total


def attributes(n):
    p, total = Point(3), 0
    for _ in range(n):
        total += p.x + p.scaled()
    return total


PROGRAMS = [arithmetic, calls, attributes]


def slowdown(f, n=20_000, rounds=5):
    """The interpreter's least time for f(n) in CPython's."""

    def best(run):
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            run(n)
            times.append(time.perf_counter() - start)
        return min(times)

    return best(lambda n: _C.interpret(f, (n,), {})) / best(f)
