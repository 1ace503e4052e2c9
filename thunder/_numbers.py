"""Traced numbers: what stands for a size or a number in a program that is being traced."""

import math
import operator

import torch

from . import _C
from ._tracing import current_tracer, location


def unknown_number(what):
    return NotImplementedError(
        f"[{what}] the value of a tensor is needed while the function is compiled, and is known only when it runs. "
        "Use tensor operations instead (torch.where for a branch), or compute the number outside\n  at " + location()
    )


class TracedNumber:
    """A number that may be another one each time the compiled function runs: the result of item(), the length of a
    nonzero(), with cache="symbolic values" also a size or a number among the arguments.

    Arithmetic stays symbolic; a comparison of sizes or arguments becomes a guard on the program.  Where Python needs
    the number itself (range(), an index of a list, an f-string), the program is compiled for just that one.
    """

    __slots__ = ("_arg",)

    def __init__(self, arg):
        self._arg = arg

    def _number(self):
        """The number itself, or None; where no program is traced any more, what it was."""
        tracer = current_tracer()
        return _C.number_hint(self) if tracer is None else tracer.specialize(self)

    def _known(self, what):
        number = self._number()
        if number is None:
            raise unknown_number(what)
        return number

    def __bool__(self):
        return self != 0 if isinstance(self, (TracedInt, TracedFloat)) else bool(self._known("bool"))

    def __int__(self):
        return int(self._known("int"))

    def __float__(self):
        return float(self._known("float"))

    def __complex__(self):
        return complex(self._known("complex"))

    def __index__(self):
        return operator.index(self._known("index"))

    def __hash__(self):
        number = self._number()
        return id(self) if number is None else hash(number)

    def __repr__(self):
        number = self._number()
        return "TracedNumber" if number is None else repr(number)

    __str__ = __repr__

    def __format__(self, spec):
        return format(self._known("format"), spec)

    def __deepcopy__(self, memo):
        return self

    def __copy__(self):
        return self

    def __reduce__(self):
        return type(self._known("pickle")), (self._known("pickle"),)

    def __getattr__(self, name):
        # What an int or a float has besides: bit_length(), is_integer(), real, ...
        if name.startswith("_") or name == "node":
            raise AttributeError(name)
        return getattr(self._known(name), name)

    def __neg__(self):
        return _number_operation("mul", self, -1)

    def __pos__(self):
        return self if isinstance(self, (TracedInt, TracedFloat)) else +self._known("pos")

    def __abs__(self):
        if not isinstance(self, (TracedInt, TracedFloat)):
            return abs(self._known("abs"))
        if self < 0:
            return -self
        return self if self > 0 else abs(self._known("abs"))  # of 0.0 and -0.0, and NaN

    def _math(self, name):
        """A function of the module math that is a comparison; None for others, which need the number itself."""
        if name == "isnan":
            return self != self
        if name == "isfinite":
            return self - self == 0
        return abs(self) == math.inf if name == "isinf" else None

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self


class TracedInt(TracedNumber, torch.SymInt):
    """PyTorch's own parsing of arguments takes it for an int; so does isinstance()."""

    __slots__ = ()
    __class__ = property(lambda self: int)


class TracedFloat(TracedNumber, torch.SymFloat):
    __slots__ = ()
    __class__ = property(lambda self: float)


def _number_operation(op, a, b):
    tracer = current_tracer()
    result = None if tracer is None else tracer.number_operation(op, a, b)
    if result is not None:
        return result
    # Not arithmetic of two numbers, or such that Python has to do it.
    if not all(isinstance(x, (TracedNumber, int, float, complex)) for x in (a, b)):
        return NotImplemented
    a, b = (x._known(op) if isinstance(x, TracedNumber) else x for x in (a, b))
    return getattr(operator, op)(a, b)


def _install_arithmetic():
    def forward(op):
        return lambda self, other: _number_operation(op, self, other)

    def backward(op):
        return lambda self, other: _number_operation(op, other, self)

    for op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor"):
        name = op.strip("_")
        setattr(TracedNumber, f"__{name}__", forward(op))
        setattr(TracedNumber, f"__r{name}__", backward(op))
    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(TracedNumber, f"__{op}__", forward(op))
    for name in ("round", "trunc", "floor", "ceil", "invert"):

        def apply(self, *args, _name=f"__{name}__"):
            return getattr(self._known(_name), _name)(*args)

        setattr(TracedNumber, f"__{name}__", apply)


_install_arithmetic()
