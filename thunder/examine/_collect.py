"""The torch functions that a function calls, by running it."""

import dataclasses
import sys
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from .. import _C, _frontend, _handlers
from .._names import resolve

_INTERNAL = tuple(str(Path(m.__file__).parent) + "/" for m in (torch, _frontend))
# Metadata, and what PyTorch does for itself: no operators of the user's program.
_SILENT = {"__set__", "__delete__"}


@dataclasses.dataclass
class Function:
    """A torch function that the program calls."""

    name: str
    calls: int
    supported: bool
    locations: list  # "file:line in function" of the user's program, each once


def _where():
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_INTERNAL):
        frame = frame.f_back
    if frame is None:
        return "?"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _name(func):
    try:
        name = resolve_name(func)
    except Exception:  # PyTorch's table does not know everything that a mode sees
        name = None
    if name:
        return name.removesuffix(".__get__")
    module = getattr(func, "__module__", None)
    plain = getattr(func, "__qualname__", None) or getattr(func, "__name__", repr(func))
    return f"{module}.{plain}" if module and module.startswith("torch") else plain


class _Collector(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.functions = {}
        self.metadata = set(filter(None, (resolve(f"torch.{p}") for p in _frontend.PASS_THROUGH.split())))

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if not self._is_metadata(func):
            name = _name(func)
            entry = self.functions.setdefault(name, Function(name, 0, _supported(func), []))
            entry.calls += 1
            if (where := _where()) not in entry.locations:
                entry.locations.append(where)
        return func(*args, **(kwargs or {}))

    def _is_metadata(self, func):
        name = getattr(func, "__name__", "")
        if name == "__get__":
            return _C.is_registered(func) and func.__self__ not in _OPERATOR_PROPERTIES
        return func in self.metadata or name in _SILENT


_OPERATOR_PROPERTIES = {getattr(torch.Tensor, name) for name in ("T", "mT", "H", "mH", "real", "imag", "data", "grad")}
_REFUSED = {_handlers._needs_data, _handlers._array, _handlers._detach_in_place}
_refused_functions = set()


def _supported(func):
    if not _refused_functions:
        for path, handler in _handlers.handlers.items():
            if handler in _REFUSED and (target := resolve(f"torch.{path}")) is not None:
                _refused_functions.add(target)
    return _C.is_registered(func) and func not in _refused_functions or _frontend.calls_as_it_is(func)


def collect(fn, *args, **kwargs):
    """Runs the function eagerly. Returns its result and the torch functions that it called, as a list of Function."""
    collector = _Collector()
    with collector:
        result = fn(*args, **kwargs)
    return result, list(collector.functions.values())
