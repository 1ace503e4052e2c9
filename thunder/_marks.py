"""The mark of the exceptions that the compiler itself raises, by which it tells them from the program's own.

It is an attribute of the exception object, which C++ sets and reads as well (csrc/python/mark.h).
"""


def ours(error):
    """The exception as one of the compiler's, whose text says more than eager's."""
    error._thunder_mark = "compiler"
    return error


def refusal(text):
    """What to raise where the compiler does not do what the program asks for."""
    return ours(NotImplementedError(text))


def is_out_of_bounds(error):
    """Whether the compiler raised it of an index that no element has."""
    return _mark_of(error) == "out of bounds"


def is_internal(error):
    """Whether it says that the compiler is wrong."""
    return _mark_of(error) == "internal"


def _mark_of(error):
    # Not by the class, whose __getattr__ may answer for an exception that it wraps.
    return vars(error).get("_thunder_mark")
