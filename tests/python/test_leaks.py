"""Compilations and calls leave memory, objects and reference counts as they were.

THUNDER_ROUNDS=10000 for the long run.
"""

import gc
import os
import sys

import pytest
import torch
from process_memory import megabytes
from torch import nn

import thunder

ROUNDS = int(os.environ.get("THUNDER_ROUNDS", "300"))
WARM = 100
MEGABYTES = 4.0  # what allocators may keep, however many rounds there are


def arithmetic(x, w, n):
    return (x * n + w).relu().sum()


def containers(x, w, n):
    kept = {"a": [x * i for i in range(3)], "n": n}
    return sum(kept["a"]) @ w.t() if n % 2 else {"out": kept["a"], "w": w}


def exceptions(x, w, n):
    try:
        raise ValueError(n)
    except ValueError as e:
        return x * e.args[0] + w


def generators(x, w, n):
    return torch.stack(list(x * i for i in range(n % 3 + 1))).sum() * w


def closures(x, w, n):
    def scaled(y, by=w):
        return y * by * n

    return scaled(x)


def writes(x, w, n):
    STATE["last"] = x * n
    STATE["count"] = n
    return w + 1


STATE = {}
LAYER = nn.Linear(4, 4)


def modules(x, w, n):
    return nn.functional.gelu(LAYER(x)) * n + w


def values(x, w, n):
    kept = x[: (x > 0).sum().item() % 3 + 1]
    if x.sum() > w.sum():
        return kept * float(w.sum()) * n + w.mean()
    return kept.sum() + w.tolist()[0][0] * w


def tensors_of(result):
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for v in result.values() for t in (v if isinstance(v, list) else [v])]


def one_round(function, x, w, n):
    """Compiles anew, misses and hits, with a backward."""
    compiled = thunder.jit(function)
    for number in (n, n + 1, n):
        results = tensors_of(compiled(x, w, number))
        sum(t.sum() for t in results).backward()
    x.grad = w.grad = None
    LAYER.zero_grad()


def counts(*objects):
    gc.collect()
    # A tuple of numbers is none of the collector's objects.
    return (len(gc.get_objects()), *map(sys.getrefcount, objects))


FUNCTIONS = [arithmetic, containers, exceptions, generators, closures, writes, modules, values]


def is_all_gone(before, after):
    """What other tests have left may go meanwhile, or make some objects more.  What rounds leave, if only those of one
    of the seven sizes, is more than that."""
    return after[0] < before[0] + ROUNDS // 8 and after[1:] == before[1:]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nothing_is_left(function):
    x, w = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    objects = (x, w, function, function.__code__, function.__globals__, STATE, LAYER.weight)
    for i in range(WARM):
        one_round(function, x, w, 2 + i % 7)
    before, memory = counts(*objects), megabytes("VmRSS")
    for i in range(ROUNDS):
        one_round(function, x, w, 2 + i % 7)
    after, grown = counts(*objects), megabytes("VmRSS") - memory
    assert is_all_gone(before, after)
    assert grown < MEGABYTES, f"{grown:.1f} MB more after {ROUNDS} rounds"


def test_nothing_is_left_of_what_was_refused():
    x, w = torch.randn(4, 4), torch.randn(4, 4)

    def refuse():
        with pytest.warns(UserWarning, match="value of a tensor"):
            thunder.jit(branches)(x, w)

    def branches(x, w):
        return x * 2 if len(x[torch.rand(4) > 0.5]) > 1 else w

    for _ in range(WARM):
        refuse()
    before, memory = counts(x, w, branches, branches.__code__), megabytes("VmRSS")
    for _ in range(ROUNDS):
        refuse()
    after = counts(x, w, branches, branches.__code__)
    assert is_all_gone(before, after)
    assert megabytes("VmRSS") - memory < MEGABYTES


@pytest.mark.parametrize("inplace", [False, True])
def test_memory_of_operators_without_a_record_goes_without_a_garbage_collection(inplace):
    def f(x):
        # Neither has a record: the graph that PyTorch's autograd makes of the call holds tensors of the size of x.
        y = x.sinh()
        return torch.ops.aten.hardsigmoid_(y.clone()) if inplace else torch.special.i0e(y)

    compiled = thunder.jit(f)
    x = torch.randn(1 << 20, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        for i in range(40):
            if i == 10:
                memory = megabytes("VmRSS")
            compiled(x).sum().backward()
            x.grad = None
        grown = megabytes("VmRSS") - memory
    finally:
        gc.enable()
    assert any("with_graph" in c.name for c in thunder.last_traces(compiled)[-1].calls)
    # A round that keeps a single tensor of the size of x keeps 4 MB.  The rest is in glibc's heaps.
    assert grown < 30 * 4 / 2, f"{grown:.1f} MB more after 30 rounds"
