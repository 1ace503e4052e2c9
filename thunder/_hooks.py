"""Tensor.register_hook() inside compiled functions: the hook is called in the program's backward, in its place."""

import types

import torch

from ._opaque_symbols import _autograd
from ._tracing import TensorProxy, current_tracer
from .extend import OperatorExecutor

_executor = OperatorExecutor("hooks")
# What cannot change, and is the same in each call of the program.
_CONSTANTS = (str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.device)


def _meta(hook, gradient):
    """What hook(gradient) gives, or the gradient where that is None."""
    return gradient


def _run(hook, gradient):
    with _autograd(), torch.no_grad():  # as in a backward of eager's
        made = hook(gradient)
    if made is None:
        return gradient
    if not isinstance(made, torch.Tensor):
        raise TypeError(f"hook '{hook.__name__}' returned a {type(made).__name__}, a tensor or None was expected")
    if made.shape != gradient.shape or made.dtype != gradient.dtype or made.device != gradient.device:
        raise RuntimeError(f"hook '{hook.__name__}' has changed the size, type or device of value")
    return made


_call_hook = _executor.register_operator("call_hook", meta=_meta, tags=("state",), fn=_run)


class _Handle:
    """What register_hook() returns."""

    def remove(self):
        current_tracer().leave_to_eager("[remove] a hook of a tensor is taken away inside the function", warns=True)


def register_hook(func, args, kwargs):
    """Of a tensor that the program has just computed; other hooks are eager's."""
    tracer = current_tracer()
    tensor, hook = args if len(args) == 2 else (args[0], kwargs["hook"])
    if not tracer.requires_grad(tensor):
        tracer.leave_to_eager("[register_hook] a hook of a tensor that requires no gradient", warns=True)
    if not isinstance(tensor, TensorProxy) or not tracer.takes_hook(tensor):
        tracer.leave_to_eager(
            "[register_hook] a hook of a tensor that is from outside, is a view, has been read before, or has a hook",
            warns=True,
        )
    if not _same_in_each_call(tracer, hook):
        tracer.leave_to_eager("[register_hook] a hook that holds what only this call has made", warns=True)
    with torch.enable_grad():
        (hooked,) = tracer.with_gradient([tensor], [tensor], lambda g: [_call_hook(hook, g)], "register_hook")
    tracer.become(tensor, hooked, "register_hook")
    return _Handle()


def _same_in_each_call(tracer, hook):
    """Whether the function, as it was made in this call, does for others."""
    if isinstance(hook, types.MethodType):
        return isinstance(hook.__self__, torch.nn.Module) and _same_in_each_call(tracer, hook.__func__)
    if not isinstance(hook, types.FunctionType):
        return False
    if not tracer.made_inside(hook):
        return True
    cells = [c.cell_contents for c in hook.__closure__ or () if tracer.made_inside(c)]
    held = (*cells, *(hook.__defaults__ or ()), *(hook.__kwdefaults__ or {}).values(), *vars(hook).values())
    return all(_is_constant(tracer, value) for value in held)


def _is_constant(tracer, value):
    if isinstance(value, torch.nn.Module) or type(value) in _CONSTANTS:
        return True
    return isinstance(value, types.FunctionType) and _same_in_each_call(tracer, value)
