"""Python functions that draw random numbers, made natively beside a program (csrc/frontend/python_draws.h)."""

import torch

from ._marks import ours


def give(function, arguments, names):
    """The function's result, and the same as a tensor on the CPU; None in place of the tensor: no program takes it.

    Args:
        arguments: All arguments, those by name last.
        names: Of the last arguments.

    Returns:
        A tuple.  A Python number becomes a tensor without dimensions: float64, int64 or bool.
    """
    positional = len(arguments) - len(names)
    named = dict(zip(names, arguments[positional:], strict=True))
    with torch._C.DisableTorchFunction():
        result = function(*arguments[:positional], **named)
        try:
            return result, _as_tensor(result)
        except (AttributeError, TypeError, ValueError, OverflowError, RuntimeError):  # no array, or of another dtype
            return result, None


def draw(function, arguments, names, generators, dtype, shape):
    """The result as a tensor of the dtype and shape that the program is for.

    Raises:
        ValueError: The function gives something else in this call.
    """
    made = give(function, arguments, names)[1]
    if made is None or made.dtype is not dtype or tuple(made.shape) != tuple(shape):
        now = "no tensor" if made is None else f"{made.dtype} of shape {tuple(made.shape)}"
        name = getattr(function, "__name__", repr(function))
        raise ours(ValueError(f"[draw] {name}() gives {now}, and the program is for {dtype} of shape {tuple(shape)}"))
    return made


def _as_tensor(result):
    for kind, dtype in ((bool, torch.bool), (int, torch.int64), (float, torch.float64)):
        if isinstance(result, kind):
            return torch.tensor(result, dtype=dtype)
    if not result.flags.c_contiguous:
        raise ValueError("an array of other strides than a new tensor's")
    # A copy: the function may keep the array.
    return torch.as_tensor(result).clone(memory_format=torch.contiguous_format)
