"""The default executor, PyTorch's own operators; and what printed programs import."""

import functools

import torch

from thunder import _C

ex = _C.find_executor("aten")


def no_autocast(fn=None):
    """Decorator: runs a program with autocast off, which was applied when the program was acquired."""
    if fn is None:
        return no_autocast

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            return fn(*args, **kwargs)

    return wrapped
