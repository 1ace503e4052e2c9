"""Lists, tuples, dicts and objects nested deeper than a stack: eager's result, or a RecursionError, and no crash."""

import subprocess
import sys

import pytest
import torch

import thunder

# The whole process would be gone, so each kind has one of its own.
PROGRAM = """
import functools, torch, thunder
N = 100000
class Node:
    def __init__(self, value): self.value = value
def inner(d):
    return d.args[0] if isinstance(d, functools.partial) else d.value if isinstance(d, Node) else d[0]
def innermost(d):
    while not isinstance(d, torch.Tensor):
        d = inner(d)
    return d
def nested(wrap):
    d = wrap(torch.ones(1))
    for _ in range(N): d = wrap(d)
    return d
d = nested({wrap})
keep = Node(None)
def argument(d): return innermost(d) + 1
def of_the_world(x): return x + innermost(d)
def looked_at(x): return x + (d == [d]) + (d in [1, d]) * 0
def operand(x): return torch.stack([x, d])
def made(x):
    return nested({wrap})
def kept(x):
    keep.value = nested({wrap})
    return x + 1
def handed_on(x):
    e = nested({wrap})
    return x + len([*map(id, [e])]) + (e == e) * 0
for f in argument, of_the_world, looked_at, operand, made, kept, handed_on:
    try:
        result = thunder.jit(f)(d if f is argument else torch.ones(1))
        print(f.__name__, innermost(result).tolist(), flush=True)
    except (RecursionError, TypeError, ValueError) as error:
        print(f.__name__, type(error).__name__, flush=True)
"""
WRAPS = ["lambda d: [d]", "lambda d: (d,)", "lambda d: {0: d}", "Node", "lambda d: functools.partial(int, d)"]


@pytest.mark.parametrize("wrap", WRAPS)
def test_deep_structures_do_not_crash(wrap):
    program = PROGRAM.replace("{wrap}", wrap)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 7
    assert "argument RecursionError" in done.stdout or "argument [2.0]" in done.stdout


def test_what_fits_the_stack_is_taken_apart():
    d = [torch.ones(1)]
    for _ in range(2000):
        d = [d]

    def f(d):
        while isinstance(d, list):
            d = d[0]
        return d + 1

    assert torch.equal(thunder.jit(f)(d), torch.full((1,), 2.0))
