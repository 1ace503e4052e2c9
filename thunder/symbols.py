"""Operators as Python functions, made from the registry: thunder.torch.gelu, thunder.prims.add."""

import inspect

import torch

from . import _C
from ._frontend import _resolve, current_tracer


class Symbol:
    """An operator.  Called inside a compiled function it is recorded; called on real tensors it runs."""

    def __init__(self, ops, function=None):
        self._ops = ops
        self.function = function  # of an operator made in Python: what runs it
        first = ops[0]
        self.name = first.name.partition(".")[2]
        self.id = first.name
        self.__name__ = self.name
        self.__qualname__ = first.print_name
        self.__doc__ = "\n\n".join(f"{op.schema}\n\n{op.doc}" for op in ops)
        self.__signature__ = _signature(first)

    @property
    def executor(self):
        return self._ops[0].executor or None

    def __call__(self, *args, **kwargs):
        tracer = current_tracer()
        if tracer is not None:
            return tracer.call_symbol(self.id, args, kwargs)
        if self.function is not None:
            return self.function(*args, **kwargs)
        if self._ops[0].level == "torch":
            return self._call_torch(args, kwargs)
        return _C.evaluate(self.id, args, kwargs)

    def _call_torch(self, args, kwargs):
        """By PyTorch's own function, so that autograd sees it: the first overload that takes these arguments."""
        mismatch = None
        for op in self._ops:
            target = next((t for path in op.python if callable(t := _resolve(path))), None)
            if target is None:
                continue
            try:
                return target(*args, **kwargs)
            except TypeError as e:
                mismatch = mismatch or e
        if mismatch:
            raise mismatch
        return _C.evaluate(self.id, args, kwargs)

    def __repr__(self):
        return f"<Symbol {self.__qualname__}>"


def _signature(op):
    params = []
    for p in op.params:
        kind = inspect.Parameter.KEYWORD_ONLY if p["keyword_only"] else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = inspect.Parameter.empty
        if "default" in p:
            default = eval(p["default"], {"torch": torch, "inf": float("inf")})  # noqa: S307  # prints of literals
        params.append(inspect.Parameter(p["name"], kind, default=default))
    try:
        return inspect.Signature(params)
    except ValueError:  # a parameter without default after one with: PyTorch has a few
        return inspect.Signature([p.replace(default=inspect.Parameter.empty) for p in params])


_symbols = {}


def symbol(name):
    """The symbol of "torch.gelu"; None if there is no such operator."""
    if name not in _symbols:
        ops = [op for op in _C.ops() if op.name == name]
        if not ops:
            return None
        _symbols[name] = Symbol(ops)
    return _symbols[name]


def add_symbol(op, function):
    """The symbol of an operator made in Python, in place of one of the same name."""
    _symbols[op.name] = Symbol([op], function)
    return _symbols[op.name]


def language(level):
    """`__getattr__` and `__dir__` of the module of a level."""

    def __getattr__(name):
        found = symbol(f"{level}.{name}") if not name.startswith("__") else None
        if found is None:
            raise AttributeError(f"thunder.{level} has no operator '{name}'")
        return found

    def __dir__():
        return sorted({op.name.partition(".")[2] for op in _C.ops() if op.level == level})

    return __getattr__, __dir__
