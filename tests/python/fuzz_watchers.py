"""Modes, transforms and classes of tensors for the random programs of fuzz.py (see docs/architecture/modes.md).

A call's watcher is a text: modes that are entered around it ("Listening", "Listening to operators", ...), classes of
its inputs ("a is Plain"), and what is around its backward.  A block of a program may be under a mode, too.
"""

import contextlib
import dataclasses
import random
import re

import torch
import torch.autograd.forward_ad as fw
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Listening(TorchFunctionMode):
    """Remembers which torch functions were called, and returns negated sums as their opposites."""

    def __init__(self, seen=None):
        super().__init__()
        self.seen = [] if seen is None else seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name != "__get__":
            self.seen.append(name)
        return -result if name in ("relu", "sin", "tanh", "maximum") else result


class ListeningToOperators(TorchDispatchMode):
    def __init__(self, seen=None):
        super().__init__()
        self.seen = [] if seen is None else seen

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Plain(torch.Tensor):
    """Results are of it, too."""


class Bare(torch.Tensor):
    """Results are not."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class Negating(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if getattr(func, "__name__", "") in ("mul", "__mul__", "relu", "sin"):
            with torch._C.DisableTorchFunctionSubclass():
                return (-result).as_subclass(cls)
        return result


CLASSES = {c.__name__: c for c in (Plain, Bare, Negating)}
NAMES = {"Listening": Listening, "Passing": Passing}
BLOCKS = ("with Listening():", "with Passing():")
AROUND = ("Listening", "ListeningToOperators", "Passing", "dual level", "Listening, Passing")


class Watcher:
    """What the text says, for one call."""

    def __init__(self, text, inputs):
        self.text, self.seen = text, []
        for name, kind in re.findall(r"(\w) is (\w+)", text):
            # Another class of the same object, so that memory and graph stay what they are.
            if type(inputs[name]) is torch.Tensor:
                inputs[name].__class__ = CLASSES[kind]

    @contextlib.contextmanager
    def around(self):
        with contextlib.ExitStack() as stack:
            if "dual level" in self.text:
                stack.enter_context(fw.dual_level())
            for name, mode in (("Listening", Listening), ("ListeningToOperators", ListeningToOperators)):
                if re.search(rf"\b{name}\b", self.text):
                    stack.enter_context(mode(self.seen))
            if re.search(r"\bPassing\b", self.text):
                stack.enter_context(Passing())
            yield

    @contextlib.contextmanager
    def around_backward(self):
        with Passing() if "backward" in self.text else contextlib.nullcontext():
            yield


def watch(program, seed):
    """The program with watchers around some calls, and around some of its statements."""
    rng = random.Random(seed)
    calls = []
    for call in program.calls:
        texts = [rng.choice(AROUND)] if rng.random() < 0.4 else []
        texts += [f"{n} is {rng.choice([*CLASSES])}" for n in "abcp" if rng.random() < 0.12]
        texts += ["backward under a mode"] if rng.random() < 0.3 else []
        calls.append(dataclasses.replace(call, watcher=", ".join(texts)))
    body = list(program.body)
    if body and rng.random() < 0.25:
        i = rng.randrange(len(body))
        header = rng.choice(BLOCKS)
        for j in range(i, min(len(body), i + rng.randint(1, 3))):
            if not body[j][0]:
                body[j] = ((header,), body[j][1])
    options = dict(program.options)
    if rng.random() < 0.15:
        options.pop("executors", None)  # with kernels
    return dataclasses.replace(program, calls=tuple(calls), body=tuple(body), options=tuple(options.items()))
