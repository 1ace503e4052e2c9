"""What stands for functions of PyTorch's inside compiled functions; it is interpreted as the user's code is."""

import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType

import torch
from torch._higher_order_ops import utils as higher_order

from ._numbers import TracedFloat, TracedInt, TracedNumber
from ._tracing import current_tracer


def _copy(function):
    """The function with another code, since what has its code is replaced."""
    name = f"{function.__name__}_itself"
    code = function.__code__.replace(co_name=name)
    return FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)


_apply = _copy(torch.nn.Module._apply)
_check_with = _copy(torch._check_with)


def apply(self, fn, recurse=True):
    """Of to(), float(), cuda(), ...: where no tensor changes there is nothing to write, and no `.grad` to look at."""
    tensors = itertools.chain(self.parameters(recurse), self.buffers(recurse))
    with torch.no_grad():
        if all([fn(t) is t for t in tensors]):
            return self
    return _apply(self, fn, recurse)


def check_with(error_type, cond, message):
    """Of torch._check(): a condition that a tensor's value gives is a bool in eager."""
    if isinstance(cond, TracedNumber) and not isinstance(cond, (TracedInt, TracedFloat)):
        if cond:
            return
        cond = False
    _check_with(error_type, cond, message)


def run_part(fn, *args):
    """Of operators of control flow, which compile the function that they are given: it is a part of this program."""
    return fn(*args)


def call_part(fn, args, kwargs=None):
    """The same."""
    return fn(*args, **(kwargs or {}))


def start_thread(*args, **kwargs):
    """Of what makes or starts threads: this one alone is recorded, and numbers of threads are taken once."""
    current_tracer().leave_to_eager("the function runs threads of its own", warns=True)


def pairs_of_loaded():
    """As `pairs`, of modules that are slow to import, if the program has imported them."""
    if (external_utils := sys.modules.get("torch._dynamo.external_utils")) is not None:
        yield external_utils.is_compiling, torch.compiler.is_compiling


def pairs():
    """Functions, and what stands for them."""
    yield torch.nn.Module._apply, apply
    yield torch._check_with, check_with
    for function in (threading.Thread.__init__, threading.Thread.start):
        yield function, start_thread
    for function in (ThreadPoolExecutor.__init__, ThreadPoolExecutor.submit):
        yield function, start_thread
    yield higher_order._maybe_compile_and_run_fn, run_part
    if hasattr(higher_order, "_hop_compile_and_call"):  # not in PyTorch 2.11
        yield higher_order._hop_compile_and_call, call_part
