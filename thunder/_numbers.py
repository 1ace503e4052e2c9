"""Traced numbers: what stands for a size or a number in a program that is being traced."""

import math
import operator

import torch

from . import _C
from ._marks import refusal
from ._tracing import current_tracer, is_unread, location


def unknown_number(what):
    return refusal(
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
        number = None if is_unread() else self._number()
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

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self


def math_function(name, *numbers):
    """What a function of the module math gives; None where it needs the numbers themselves."""
    tracer = current_tracer()
    if name == "pow" and len(numbers) == 2:
        return tracer.number_operation("pow", numbers[0] * 1.0, numbers[1] * 1.0)
    if name == "log" and len(numbers) == 2:
        of, base = (math_function(name, n) if isinstance(n, TracedNumber) else math.log(n) for n in numbers)
        return None if of is None or base is None else of / base
    if len(numbers) != 1:
        return None
    (number,) = numbers
    if name == "isnan":
        return number != number
    if name == "isfinite":
        return number - number == 0
    if name == "isinf":
        return abs(number) == math.inf
    if name in ("degrees", "radians"):
        return number * (180.0 / math.pi if name == "degrees" else math.pi / 180.0)
    if name in ("floor", "ceil", "trunc"):
        return number if type(number) is TracedInt else None
    return tracer.number_function(name, number, 0)


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
    for name in ("trunc", "floor", "ceil", "invert"):

        def apply(self, *args, _name=f"__{name}__"):
            if type(self) is TracedInt and not args and _name != "__invert__":
                return self
            return getattr(self._known(_name), _name)(*args)

        setattr(TracedNumber, f"__{name}__", apply)

    def round_to(self, digits=None):
        if type(self) is TracedInt and (digits is None or digits >= 0):
            return self
        tracer = current_tracer()
        if tracer is not None and type(self) is TracedFloat and type(digits) is int and 0 <= digits <= 22:
            rounded = tracer.number_function("round", self, digits)
            if rounded is not None:
                return rounded
        return round(self._known("round"), *(() if digits is None else (digits,)))

    TracedNumber.__round__ = round_to


_install_arithmetic()
