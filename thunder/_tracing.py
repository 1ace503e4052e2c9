"""Which program is being traced in this thread, and the user's line that runs."""

import sys
import threading
from pathlib import Path

import torch

state = threading.local()


def current_tracer():
    """The tracer of the compilation that runs in this thread, or None."""
    stack = getattr(state, "tracers", None)
    return stack[-1] if stack else None


INTERNAL = (str(Path(__file__).parent) + "/", str(Path(torch.__file__).parent) + "/")


def location():
    """The user's line that runs."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(INTERNAL):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}" if frame else "?"
