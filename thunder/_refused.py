"""Arguments that no record takes: PyTorch is asked what it makes of them.

What PyTorch refuses is refused with its own exception.  What it takes is recorded otherwise: with numbers in the place
of tensors, tensors in that of arrays, without what is None, by what the function's Python calls, or by the operator as
it is.
"""

import functools

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._pytree import tree_leaves

from . import _asking, _opaque
from ._marks import is_internal, ours, refusal
from ._python_bodies import body_of
from ._tracing import current_tracer, location, state


def after(func, args, kwargs, error):
    """(result,) of the call, recorded otherwise; None where the record's error stands."""
    # Records say what eager says, but for types, numbers that are too large, and errors of C++'s library.
    has_arrays = any(map(_is_array, tree_leaves((args, kwargs))))
    if isinstance(error, NotImplementedError) or not (_is_of_arguments(error) or has_arrays):
        return None
    try:
        if _asking.call(func, args, kwargs) is NotImplemented:  # the other operand says what the operator means
            if has_arrays:
                current_tracer().leave_to_eager("an operator of NumPy's reads a tensor")
            return (NotImplemented,)
    except Exception as eagers:
        if not _asking.is_certain(eagers):
            return _recorded(func, args, kwargs, error)
        # An assertion is that of PyTorch's Python, which stands for the operator on tensors without data.
        if isinstance(eagers, AssertionError) or (type(eagers) is type(error) and not is_internal(error)):
            return None
        raise _as_eager(func, eagers) from None
    return _recorded(func, args, kwargs, error)


def guarded(handler):
    """A handler whose errors are eager's."""

    @functools.wraps(handler)
    def call(func, args, kwargs):
        try:
            return handler(func, args, kwargs)
        except Exception as e:
            made = after(func, args, kwargs, e) if type(e).__module__ == "builtins" else None
            if made is None:
                raise
            return made[0]

    return call


def _is_of_arguments(error):
    return isinstance(error, (TypeError, OverflowError)) or is_internal(error)


def _as_eager(func, error):
    text = f"[{getattr(func, '__name__', func)}] {error}\n  at {location()}"
    try:
        return ours(type(error)(text))
    except Exception:  # one that is made otherwise
        return error


def _recorded(func, args, kwargs, error):
    for other in (_with_arrays, _with_numbers, _without_none):
        changed = other(args, kwargs)
        if changed is not None:
            return (current_tracer().handle(func, *changed),)
    body = body_of(func)
    if body is not None:
        return (in_mode(body, args, kwargs),)
    record = _opaque.resolve(func, args, kwargs)
    if record is not None:
        return (record(),)
    raise refusal(
        f"[{getattr(func, '__name__', func)}] these arguments are not supported inside a compiled function ({error}); "
        f"call it outside, or pass others\n  at {location()}"
    )


def in_mode(body, args, kwargs):
    """A torch function's Python, whose torch calls come back to the tracer."""
    if state.modes[-1] in _get_current_function_mode_stack():
        return body(*args, **kwargs)
    with state.modes[-1]:
        return body(*args, **kwargs)


def _with_numbers(args, kwargs):
    """Of tensors behind the first argument that have one element and no dimension; None if there is none."""
    tracer, found = current_tracer(), []

    def number(value):
        if isinstance(value, torch.Tensor) and value.ndim == 0 and tracer.shape(value) == ():
            found.append(value)
            return tracer.apply("torch.item", (value,))
        return value

    changed = (*args[:1], *_asking.mapped(tuple(args[1:]), number)), _asking.mapped(kwargs, number)
    return changed if found else None


def _with_arrays(args, kwargs):
    """NumPy's arrays as tensors that share their memory; None if there is none."""
    if not any(map(_is_array, tree_leaves((args, kwargs)))):
        return None
    with torch._C.DisableTorchFunction():
        return _asking.mapped((args, kwargs), lambda v: torch.as_tensor(v) if _is_array(v) else v)


def _is_array(value):
    return hasattr(value, "__array__") and not isinstance(value, torch.Tensor)


def _without_none(args, kwargs):
    """None means the default; None (the result) if there is none."""
    given = list(args)
    while len(given) > 1 and given[-1] is None:
        given.pop()
    named = {k: v for k, v in kwargs.items() if v is not None}
    return (tuple(given), named) if len(given) != len(args) or len(named) != len(kwargs) else None
