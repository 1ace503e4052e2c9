"""Torch functions that are written in Python, entered without their question whether somebody overrides them."""

import functools
from types import CellType, FunctionType

import torch
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op

# Their kernels outside torch.compile are Python, which calls the functions that it is given on tensors.
_CONTROL_FLOW = frozenset((associative_scan_op, cond_op, map_impl, scan_op, while_loop_op))


class _Changed:
    """A module with other attributes in the place of some of its own."""

    def __init__(self, module, **attributes):
        self._module = module
        vars(self).update(attributes)

    def __getattr__(self, name):
        return getattr(self._module, name)


_MODE_CHECKS = {f"has_torch_function{kind}": lambda *_: False for kind in ("", "_unary", "_variadic")}
_OVERRIDES = _Changed(torch.overrides, **_MODE_CHECKS)
_CHECKING = {torch.overrides: _OVERRIDES, torch: _Changed(torch, overrides=_OVERRIDES)}


@functools.cache
def body_of(func):
    """A torch function that is written in Python, as what it calls; None for others."""
    if func in _CONTROL_FLOW:
        return func.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd]
    if not isinstance(func, FunctionType) or not f"{func.__module__}.".startswith("torch."):
        return None
    # A function that chooses one of two by a flag does not ask, they do.
    cells = func.__closure__ or ()
    contents = [cell.cell_contents for cell in cells]
    inner = [body_of(c) if isinstance(c, FunctionType) and c is not func else None for c in contents]
    if not any(inner) and not _MODE_CHECKS.keys() & {*func.__code__.co_names}:
        return None
    closure = [cell if body is None else CellType(body) for cell, body in zip(cells, inner, strict=True)]
    # Only this one does not ask whether somebody wants to see the call: the functions that it calls still do.
    names = {**func.__globals__, **_MODE_CHECKS}
    if "overrides" in func.__code__.co_names:  # torch.overrides.has_torch_function_variadic(tensor)
        names |= {k: _CHECKING[v] for k, v in names.items() if v is torch or v is torch.overrides}
    body = FunctionType(func.__code__, names, func.__name__, func.__defaults__, tuple(closure) or None)
    body.__kwdefaults__ = func.__kwdefaults__
    return body
