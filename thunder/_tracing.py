"""Which program is being traced in this thread, what its tensors are to Python, and the user's line that runs."""

import contextlib
import sys
import threading
from pathlib import Path

import torch

from ._marks import refusal

state = threading.local()


def current_tracer():
    """The tracer of the compilation that runs in this thread, or None."""
    stack = getattr(state, "tracers", None)
    return stack[-1] if stack else None


@contextlib.contextmanager
def unread():
    """PyTorch may write down what it is given, for messages that nobody sees: no value is asked for here."""
    before, state.unread = is_unread(), True
    try:
        yield
    finally:
        state.unread = before


def is_unread():
    return getattr(state, "unread", False)


def saved_tensors_hooks():
    """Those that are in force in this thread, or None."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


class TensorProxy(torch.Tensor):
    """A tensor of a program that is being traced: a type, and no data."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    __class__ = property(lambda self: torch.Tensor)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if (tracer := current_tracer()) and not torch._C._is_torch_function_enabled() and not is_unread():
            tracer.leave_to_eager("the function disables torch functions")
        raise refusal(
            f"[{func}] a tensor of a compiled function was used where its operations cannot be recorded: kept after "
            "the function returned, or passed to C++ code"
        )

    def __repr__(self, **kwargs):
        tracer = current_tracer()
        known = tracer is not None and not is_unread() and tracer.knows(self)
        return tracer.handle(torch.Tensor.__repr__, (self,), kwargs) if known else "TensorProxy"


INTERNAL = (str(Path(__file__).parent) + "/", str(Path(torch.__file__).parent) + "/")


def location():
    """The user's line that runs."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(INTERNAL):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}" if frame else "?"
