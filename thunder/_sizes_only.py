"""Operators that run on PyTorch's device "meta", for what they give on another.

It is what FakeTensorMode does for operators whose sizes and strides depend on no device, or that are composed of such,
but without torch._dynamo, whose import takes seconds of a first step.
"""

import contextlib
import functools
import inspect
import types

import torch
from torch._subclasses import fake_impls
from torch.utils._python_dispatch import TorchDispatchMode

from ._dataless import DatalessTensor, run

_META = torch.device("meta")


class DependsOnDevice(Exception):
    """An operator's sizes or strides are not the same on all devices."""


def without_memory(shape, stride, dtype, device):
    """A tensor of these sizes and strides, for use in SizesOnly."""
    return DatalessTensor(torch.empty_strided(shape, stride, dtype=dtype, device="meta"), device)


class SizesOnly(TorchDispatchMode):
    """Operators within it run on device "meta", where their sizes and strides are those of any device."""

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # else PyTorch imports torch._dynamo at the first operator

    def __torch_dispatch__(self, func, classes, args=(), kwargs=None):
        kwargs = kwargs or {}
        if kwargs.get("device") == _META:  # what is to stand behind a tensor
            return func(*args, **kwargs)
        if _is_of_fakes(func):
            raise DependsOnDevice(str(func))
        if kernel := _composition(func):
            with self, _without_dynamo(kernel):
                return kernel(*args, **kwargs)
        with self:
            results = func.decompose(*args, **kwargs)
        return run(func, args, kwargs, _META) if results is NotImplemented else results


# For these FakeTensorMode has code of its own, which gives what the device "meta" gives.
_LIKE_META = (
    "_like.default",
    ".new_",
    ".view.",
    "._unsafe_view.",
    ".select.",
    ".slice.",
    ".copy_.default",
    ".index.Tensor",
    ".index_put.default",
)
# What those of PyTorch's meta functions name that ask fake tensors alone for the device.
_OF_FAKES = {"device_hint", "fake_device"}
_META_FUNCTIONS, _COMPOSITIONS = "torch._meta_registrations", ("torch._refs", "torch._decomp")
_DISABLED = "__dynamo_disable"  # where torch._disable_dynamo keeps what it has made of a function


@functools.cache
def _is_of_fakes(func):
    """Whether only FakeTensorMode knows the sizes and strides on a device."""
    if func in fake_impls.op_implementations_dict and not any(part in str(func) for part in _LIKE_META):
        return True
    return any(_OF_FAKES & set(code.co_names) for code in _codes(func))


@functools.cache
def _composition(func):
    """A meta function that is composed of operators, and may ask tensors for their device; None for others."""
    kernel = _kernel(func)
    return kernel if getattr(inspect.unwrap(kernel), "__module__", "").startswith(_COMPOSITIONS) else None


@functools.cache
def _decorated(kernel):
    """The functions within a meta function that torch._disable_dynamo decorates."""
    out, seen, left = [], set(), [kernel]
    while left:
        function = left.pop()
        if not isinstance(function, types.FunctionType) or function in seen:
            continue
        seen.add(function)
        within = [cell.cell_contents for cell in function.__closure__ or ()]
        named = (function.__globals__.get(name) for name in function.__code__.co_names)
        left += [f for f in named if getattr(f, "__module__", None) and f.__module__.startswith(_COMPOSITIONS)]
        if function.__code__.co_filename == torch._compile.__file__:
            out += [f for f in within if isinstance(f, types.FunctionType)]
        left += within
    return out


@contextlib.contextmanager
def _without_dynamo(kernel):
    """torch._disable_dynamo imports torch._dynamo when what it decorates is called first."""
    functions = [f for f in _decorated(kernel) if not hasattr(f, _DISABLED)]
    for f in functions:
        setattr(f, _DISABLED, f)
    try:
        yield
    finally:
        for f in functions:
            delattr(f, _DISABLED)


def _kernel(func):
    return func.py_kernels.get(torch._C.DispatchKey.Meta)


def _codes(func):
    """Of the meta function in Python, and of all that it names."""
    found, left = set(), [_kernel(func)]
    while left:
        function = inspect.unwrap(left.pop())
        code = getattr(function, "__code__", None)
        if code is None or code in found:
            continue
        found.add(code)
        named = (function.__globals__.get(name) for name in code.co_names)
        left += [f for f in named if isinstance(f, types.FunctionType) and f.__module__ == _META_FUNCTIONS]
    return found
