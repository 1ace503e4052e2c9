"""Little worlds: modules made from source text, whose function `f` is compiled, and comparisons of what is in them.

A world made twice from the same source gives two equal worlds: one runs eager, the other compiled, and what was
written to them is compared.
"""

import contextlib
import contextvars
import ctypes
import functools
import itertools
import random
import textwrap
import types
import weakref
from collections import deque

import numpy as np
import torch
from torch.utils.hooks import RemovableHandle

NUMBERS = itertools.count()

PRELUDE = """
import array, builtins, collections, contextlib, contextvars, ctypes
import dataclasses, enum, functools, itertools, math, operator, os, random
import sys, threading, types, weakref
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
import numpy as np, torch
from torch import nn
F = nn.functional
class Thing: pass
def thing(**attributes):
    made = Thing()
    made.__dict__.update(attributes)
    return made
"""
EXCLUDED = {"undo", "Thing", "thing", "F"}
DEFINITIONS = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodWrapperType)
DEFINITIONS += (classmethod, staticmethod, property)
VALUES = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))  # whose identity says nothing


class World:
    """`undo`: a contextlib.ExitStack that the source may use to clean up after itself."""

    def __init__(self, source, undo=None):
        self.module = types.ModuleType(f"world{next(NUMBERS)}")
        self.names = vars(self.module)
        self.names["undo"] = undo or contextlib.ExitStack()
        self.do(PRELUDE)
        torch.manual_seed(0)
        self.do(source)

    def do(self, statements):
        exec(compile(textwrap.dedent(statements), f"<{self.module.__name__}>", "exec"), self.names)

    def state(self):
        return {k: v for k, v in self.names.items() if k not in EXCLUDED and not k.startswith("__")}


def assert_same(a, b, where="", seen=None):
    """Equal as far as a program can tell, within containers and attributes too; which of the objects are one and the
    same is compared as well, but not their addresses."""
    seen = Pairs() if seen is None else seen
    if isinstance(a, DEFINITIONS):
        return _same_definition(a, b, where, seen)
    assert type(a).__name__ == type(b).__name__, f"{where}: {type(a).__name__} and {type(b).__name__}"
    if not isinstance(a, VALUES) and seen.met(a, b, where):
        return
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(b, a, **seen.tolerance, equal_nan=True, msg=lambda text: f"{where}: {text}")
        _same_gradients(a, b, where, seen)
        assert_same(vars(a), vars(b), f"{where}.__dict__", seen)
    elif isinstance(a, dict | types.MappingProxyType):
        numbered = where.endswith(("_hooks", "hooks_dict_ref"))  # their keys count all hooks of the process
        assert numbered or list(a) == list(b), f"{where}: keys {list(a)} and {list(b)}"
        assert len(a) == len(b), f"{where}: {len(a)} and {len(b)} entries"
        for (k, v), w in zip(a.items(), b.values(), strict=True):
            assert_same(v, w, f"{where}.{k}", seen)
    elif isinstance(a, list | tuple | deque):
        assert len(a) == len(b), f"{where}: lengths {len(a)} and {len(b)}"
        for i, (v, w) in enumerate(zip(a, b, strict=True)):
            assert_same(v, w, f"{where}[{i}]", seen)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), f"{where}: {a} and {b}"
    elif isinstance(a, ctypes._SimpleCData | ctypes.Array):
        assert bytes(a) == bytes(b), f"{where}: {bytes(a)} and {bytes(b)}"
    elif isinstance(a, contextvars.ContextVar):
        assert_same(a.get(None), b.get(None), where, seen)
    elif isinstance(a, random.Random):
        assert a.getstate() == b.getstate(), f"{where}: other random numbers come"
    elif isinstance(a, weakref.ref):
        if None not in (a(), b()):  # how long an object lives is not a program's to know
            assert_same(a(), b(), where, seen)
    elif isinstance(a, set | frozenset):
        tensors = [[v for v in s if isinstance(v, torch.Tensor)] for s in (a, b)]
        assert len(a) == len(b) and a - {*tensors[0]} == b - {*tensors[1]}, f"{where}: {a} and {b}"
        assert_same(*tensors, where, seen) if len(tensors[0]) == 1 else None  # more have no order
    elif isinstance(a, types.MethodType):
        assert_same([a.__self__, a.__func__], [b.__self__, b.__func__], where, seen)
    elif isinstance(a, functools.partial):
        assert_same(*([f.func, f.args, f.keywords] for f in (a, b)), where, seen)
    elif hasattr(a, "__dict__"):
        unlike = ("__module__", "id") if isinstance(a, RemovableHandle) else ("__module__",)  # it counts all
        own = [{k: v for k, v in vars(o).items() if k not in unlike} for o in (a, b)]
        assert_same(*own, where, seen)
    elif slots := getattr(type(a), "__slots__", ()):
        for name in slots:
            assert_same(getattr(a, name, None), getattr(b, name, None), f"{where}.{name}", seen)
    elif type(a).__eq__ is not object.__eq__:
        assert a == b or a != a and b != b, f"{where}: {a!r} and {b!r}"


class Pairs:
    """Which object of the one side is which of the other.

    `zeros_for_none`: where eager has no gradient compiled may have zeros, as one node differentiates all results.
    """

    def __init__(self, zeros_for_none=False, **tolerance):
        self.zeros_for_none = zeros_for_none
        self.there, self.back, self.kept = {}, {}, []
        self.tolerance = tolerance

    def met(self, a, b, where):
        """Whether the two were met before."""
        known = id(a) in self.there
        there, back = self.there.setdefault(id(a), id(b)), self.back.setdefault(id(b), id(a))
        self.kept.append((a, b))
        assert (there, back) == (id(b), id(a)), f"{where}: is another object, which was met before, on one side only"
        return known


def _same_definition(a, b, where, seen):
    names = [getattr(v, "__name__", "").rstrip("0123456789") for v in (a, b)]
    assert type(a).__name__ == type(b).__name__ and names[0] == names[1], f"{where}: {a} and {b}"
    if isinstance(a, types.FunctionType) and a.__module__.startswith("world") and not seen.met(a, b, where):
        cells = [tuple(_contents(c) for c in f.__closure__ or ()) for f in (a, b)]
        assert_same(*cells, f"{where}.__closure__", seen)
        assert_same(vars(a), vars(b), where, seen)
        assert_same(a.__defaults__, b.__defaults__, f"{where}.__defaults__", seen)
    if isinstance(a, type) and a.__module__.startswith("world") and not seen.met(a, b, where):
        names = [k for k, v in vars(a).items() if not k.startswith("__") and not hasattr(type(v), "__get__")]
        for name in names:
            assert_same(vars(a)[name], vars(b).get(name), f"{where}.{name}", seen)


def _contents(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _same_gradients(a, b, where, seen):
    assert a.requires_grad == b.requires_grad, f"{where}: requires_grad {a.requires_grad} and {b.requires_grad}"
    assert a.is_leaf == b.is_leaf, f"{where}: is_leaf {a.is_leaf} and {b.is_leaf}"
    if a.is_leaf and not (seen.zeros_for_none and a.grad is None and b.grad is not None and not b.grad.any()):
        assert_same(a.grad, b.grad, f"{where}.grad", seen)


def differ(a, b):
    try:
        assert_same(a, b)
    except AssertionError:
        return True
    return False
