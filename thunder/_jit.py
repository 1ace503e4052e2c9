"""`thunder.jit`, whose options are the records of `_options.py`."""

import functools
import inspect
import re

import torch

from ._inner_modules import make
from ._options import Options, options_doc, options_of
from .module import ThunderModule


def jit(fn=None, /, **options):
    """Compiles a function or a module.

    Args:
        fn: A callable on tensors (and anything else), or a torch.nn.Module. Without it, returns a decorator.
        **options: The fields of `Options` in _options.py, whose docs take this line's place.

    Returns:
        A callable with `fn`'s signature. For a module, a ThunderModule that shares parameters and buffers with it.

    Raises:
        ValueError: an unknown executor, or an unknown value of an option; the message lists what there is.
        TypeError: `fn` cannot be called, or an unknown option.
    """
    asked_for = options_of(options)
    if fn is None:
        if "transforms" in options:
            options["transforms"] = asked_for.transforms  # given as an iterator, perhaps
        return functools.partial(jit, **options)
    if isinstance(fn, ThunderModule):
        fn = fn._original
    if isinstance(fn, torch.nn.Module):
        return ThunderModule(fn, asked_for)
    if not callable(fn):
        raise TypeError(f"[jit] a callable or a torch.nn.Module was expected, got {type(fn).__name__}")
    compiled = make(fn, None, asked_for)
    try:
        functools.update_wrapper(compiled, fn)
    except (AttributeError, TypeError):
        compiled.__wrapped__ = fn
    return compiled


def _show_options(function):
    """Puts the records into the signature and the docstring of a function with the argument `**options`."""
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    records = [p.replace(annotation=p.empty) for p in inspect.signature(Options).parameters.values()]
    function.__signature__ = signature.replace(parameters=[*own, *records])
    if doc := inspect.getdoc(function):  # None with python -OO
        function.__doc__ = re.sub(r"    \*\*options: .*", lambda _: options_doc(), doc)


_show_options(jit)
jit.__module__ = "thunder"  # where users find it
