"""Executors and operators of your own: docs/adding_an_executor.md.

    ex = thunder.extend.OperatorExecutor("mine")
    fast_gelu = ex.register_operator("fast_gelu", like=torch.nn.functional.gelu, fn=my_kernel)
    ex.register_implementation("torch.nn.functional.gelu", fast_gelu, checker=lambda a, **_: a.is_cuda)
    model = thunder.jit(model, executors=[ex])
"""

import importlib
import sys
import warnings

from .. import _C
from .executors import FusionExecutor, OperatorExecutor, Region, get_grad, put_grad, register_grad

Executor = _C.Executor

__all__ = [
    "Executor",
    "FusionExecutor",
    "OperatorExecutor",
    "Region",
    "add_always_executor",
    "add_default_executor",
    "deregister_executor",
    "get_all_executors",
    "get_always_executors",
    "get_default_executors",
    "get_executor",
    "get_grad",
    "list_executors",
    "put_grad",
    "register_executor",
    "register_grad",
    "remove_always_executor",
    "remove_default_executor",
    "resolve_executors",
]

# Executors that register themselves when their module is imported, which may cost time (triton, torch._inductor).
_ON_DEMAND = {
    "torchcompile": "thunder.executors.torch_compile",
    "torchcompile_cat": "thunder.executors.torch_compile",
    "triton": "thunder.executors.triton_crossentropy",
    "apex": "thunder.executors.apex_entropyex",
}
_ALIASES = {"torch": "aten"}
# Names that lists for Lightning Thunder have, with who runs the same operators here; None: whoever is next in the list.
_OF_OTHER_INSTALLATIONS = {
    "nvfuser": "fuser",
    "cudnn": None,
    "cudnn_layernorm": None,
    "apex": None,
    "transformer_engine": None,
    "fa3": None,
    "triton": None,
}
_warned = set()


def _check(executor):
    if not isinstance(executor, _C.Executor):
        raise TypeError(f"[extend] an executor was expected, got {type(executor).__name__}")
    return executor


def _name(executor):
    return executor if isinstance(executor, str) else _check(executor).name


def register_executor(executor):
    """Makes an executor known by its name; returns it. One of the same name is replaced."""
    _C.add_executor(_check(executor))
    return executor


def deregister_executor(executor):
    """Forgets an executor (or the one of this name), also as a default or always executor."""
    _C.remove_executor(_name(executor))


def add_default_executor(executor):
    """Puts an executor first in the list that thunder.jit uses without `executors=`."""
    _C.add_default_executor(_check(executor))


def remove_default_executor(executor):
    """Takes an executor (or the one of this name) out of that list."""
    _C.remove_default_executor(_name(executor))


def add_always_executor(executor):
    """Puts an executor at the end of every list, also of those that users give."""
    _C.add_always_executor(_check(executor))


def remove_always_executor(executor):
    """Takes an executor (or the one of this name) out of the always executors; it stays registered."""
    executor = get_executor(_name(executor))
    always = [e.name for e in _C.always_executors()]
    if executor is None or executor.name not in always:
        return
    defaults = [e.name for e in _C.default_executors() if e.name not in always]
    _C.remove_executor(executor.name)
    _C.add_executor(executor)
    if executor.name in defaults:
        _C.add_default_executor(executor)


def get_all_executors():
    """Every executor that is registered, usable here or not."""
    for module in dict.fromkeys(_ON_DEMAND.values()):
        importlib.import_module(module)
    return tuple(_C.all_executors())


def list_executors():
    """The names of all executors."""
    return tuple(e.name for e in get_all_executors())


def get_default_executors():
    """What thunder.jit uses without `executors=`, highest priority first."""
    return tuple(_C.default_executors())


def get_always_executors():
    """The executors that stand last in every list."""
    return tuple(_C.always_executors())


def get_executor(name):
    """The executor of that name, or None."""
    name = _ALIASES.get(name, name)
    found = _C.find_executor(name)
    if found is None and name in _ON_DEMAND:
        importlib.import_module(_ON_DEMAND[name])
        found = _C.find_executor(name)
    return found


def _frames_of_thunder():
    """The `stacklevel` of the user's line for a warning of the caller."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        frame, level = frame.f_back, level + 1
    return level


def _instead_of(name, unusable):
    """Who runs what the executor of that name would, or None. Warns once."""
    instead = _OF_OTHER_INSTALLATIONS[name]
    if name not in _warned:
        _warned.add(name)
        why = unusable.unavailable if unusable is not None else "it is not installed"
        what = f"'{instead}' takes its place" if instead else "it is passed over"
        warnings.warn(f"[jit] executor '{name}' cannot be used here ({why}): {what}", stacklevel=_frames_of_thunder())
    return get_executor(instead) if instead else None


def resolve_executors(executors):
    """The list that thunder.jit works with: names looked up, the always executors appended.

    A name from lists for Lightning Thunder ("nvfuser", "cudnn", "transformer_engine", ...) whose executor cannot be
    used here is passed over, "nvfuser" replaced by "fuser", with one warning in a process.

    Raises ValueError for an unknown name, or an executor object that cannot be used on this machine.
    """
    if executors is None:
        return list(_C.default_executors())
    resolved = []
    for e in executors:
        found = get_executor(e) if isinstance(e, str) else e
        if isinstance(e, str) and e in _OF_OTHER_INSTALLATIONS and (found is None or found.unavailable):
            found = _instead_of(e, found)
            if found is None or found in resolved:
                continue
        if not isinstance(found, _C.Executor):
            names = ", ".join(repr(name) for name in list_executors())
            raise ValueError(f"[jit] unknown executor {e!r}; there are {names}")
        if found.unavailable:
            raise ValueError(
                f"[jit] executor '{found.name}' cannot be used here: {found.unavailable}; usable are "
                + ", ".join(repr(x.name) for x in get_all_executors() if not x.unavailable)
            )
        resolved.append(found)
    known = {e.name for e in resolved}
    return resolved + [e for e in _C.always_executors() if e.name not in known]
