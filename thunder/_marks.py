"""The mark of the exceptions that the compiler itself raises, by which it tells them from the program's own.

It is an attribute of the exception object, which C++ sets and reads as well (csrc/python/mark.h).
"""


_OF_THE_LIBRARY = ("std::", "vector::", "basic_string")


def ours(error):
    """The exception as one of the compiler's, whose text says more than eager's."""
    error._thunder_mark = "compiler"
    return error


def refusal(text):
    """What to raise where the compiler does not do what the program asks for."""
    return ours(NotImplementedError(text))


def is_ours(error):
    """Whether the compiler raised it; None is no such error."""
    return error is not None and _mark_of(error) is not None


def is_refusal(error):
    """Whether it says that the compiler does not do what the program asks for."""
    return isinstance(error, NotImplementedError) and is_ours(error)


def is_out_of_bounds(error):
    """Whether the compiler raised it of an index that no element has."""
    return _mark_of(error) == "out of bounds"


def is_internal(error):
    """Whether it says that the compiler is wrong: by the mark, or by the text of an exception of C++'s library."""
    # nanobind turns exceptions of C++'s library into IndexError, ValueError and RuntimeError, which have no mark.
    return _mark_of(error) == "internal" or any(words in str(error) for words in _OF_THE_LIBRARY)


def _mark_of(error):
    # Not by the class, whose __getattr__ may answer for an exception that it wraps.
    return vars(error).get("_thunder_mark")
