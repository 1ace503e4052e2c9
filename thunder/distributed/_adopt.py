"""Modules that PyTorch's data parallelism wraps become compiled `ddp` and `fsdp`, with their first call."""

import importlib
import warnings

from torch.nn.parallel import DistributedDataParallel

from .. import _C
from .._marks import refusal
from ..module import ThunderDDP, ThunderModule
from ._plan import state_of

_MOST_COMPILATION = 600.0  # seconds from the first process's to the last one's


class NotAdopted(Exception):
    """Why a module is left to eager."""


def first_call(model, args, kwargs):
    """Calls a jitted module, an `Unadopted`, and settles what runs its later calls. All processes call it together.

    A program communicates as compiled `ddp` and `fsdp` do. Where there can be none, on all processes, eager PyTorch
    runs the module in this call and in later ones, with a warning.

    Raises:
        NotImplementedError: A communication hook stands in the way, or there is a program on some processes only.
        RuntimeError: Processes have other parameters.
    """
    adopt(model)
    module = model._original
    state = state_of(module)
    if state is None:
        return model(*args, **kwargs)
    way = _way(module)
    try:
        out = way.Adopted.__call__(model, *args, **kwargs)
    except NotImplementedError as reason:
        if state.settled:
            raise
        try:
            _C.agree(state.everyone.group_name, f"{state.id} runs by eager", "", _MOST_COMPILATION)
        except RuntimeError as others:  # that have a program
            raise reason from others
        way.undo(model, module, state)
        _leave(model, reason)
        return model(*args, **kwargs)
    if not state.settled:
        state.settled = True
        way.settle(module)
    object.__setattr__(model, "__class__", way.Adopted)
    return out


def adopt(model):
    """Makes the parameters of an `Unadopted` those of programs, or leaves it to eager, with a warning."""
    module = model._original
    try:
        _way(module).adopt(model, module)
    except NotAdopted as reason:
        _leave(model, reason)


def _way(module):
    name = "_adopt_ddp" if isinstance(module, DistributedDataParallel) else "_adopt_fsdp"
    return importlib.import_module(f".{name}", __package__)


def _leave(model, reason):
    text = str(reason).removeprefix("[jit] ")
    warnings.warn(f"[jit] {text}. The module runs by eager PyTorch, not compiled", stacklevel=4)
    eager = ThunderDDP if isinstance(model._original, DistributedDataParallel) else ThunderModule
    object.__setattr__(model, "__class__", eager)


def refuse(owner, name, instead):
    """Calls of the method `name` of an adopted module raise."""
    kind = "DistributedDataParallel" if isinstance(owner, DistributedDataParallel) else "FSDPModule"

    def refused(*args, **kwargs):
        raise refusal(f"[jit] {kind}.{name}() has no effect on a compiled module; {instead}")

    object.__setattr__(owner, name, refused)
