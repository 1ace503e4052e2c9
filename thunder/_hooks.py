"""Hooks of gradients inside compiled functions: calls of Python in the program's backward, each in its place.

Hooks of what the function computes are calls in the backward; those of arguments, parameters and other tensors from
outside are registered with the caller's tensor in each call, as eager does.
"""

import types

import torch
from torch.utils.hooks import BackwardHook

from . import _C
from ._numbers import TracedNumber
from ._opaque_symbols import _autograd, _several
from ._tracing import TensorProxy, current_tracer, saved_tensors_hooks, state
from .extend import OperatorExecutor

_executor = OperatorExecutor("hooks")
# What cannot change, and is the same in each call of the program.
_CONSTANTS = (str, bytes, int, float, complex, bool, type(None), torch.dtype, torch.device)


# ---- in the backward -------------------------------------------------------------------------------------------------


def _flows(flows, i=0):
    """Whether eager's graph gives the gradient, where ours may be zeros (mark_flows)."""
    return flows is None or _C.backward_uses(flows[i])


def _replaced(made, gradient, name):
    """The gradient that a hook gives."""
    if made is None:
        return gradient
    if not isinstance(made, torch.Tensor):
        raise TypeError(f"hook '{name}' returned a {type(made).__name__}, a tensor or None was expected")
    if made.shape != gradient.shape or made.dtype != gradient.dtype or made.device != gradient.device:
        raise RuntimeError(f"hook '{name}' has changed the size, type or device of value")
    return made


def _call_hook_meta(hook, gradients, flows=None):
    """What hook(gradient) gives, or the gradient where that is None."""
    return gradients


def _run_hook(hook, gradients, flows=None):
    if not _flows(flows):
        return gradients
    with _autograd(), torch.no_grad():  # as in a backward of eager's
        return _replaced(hook(gradients), gradients, getattr(hook, "__name__", "hook"))


def _keep_meta(place, gradients, flows=None):
    """Adds to the .grad of a result of the call that keeps its gradient."""


def _keep(place, gradients, flows=None):
    if _flows(flows):
        _C.keep_gradient(place, gradients)


_call_hook = _executor.register_operator("call_hook", meta=_call_hook_meta, tags=("state",), fn=_run_hook)
_keep_gradient = _executor.register_operator("keep_gradient", meta=_keep_meta, tags=("state",), fn=_keep)


# ---- of tensors ------------------------------------------------------------------------------------------------------


class _Handle(Exception):
    """What register_hook() returns.

    It would remove the hook of one call, so that it must not outlive the call: an exception is made in no later call.
    """

    def __init__(self, tensor, number=None):
        super().__init__()
        self._tensor, self._number, self._outside = tensor, number, None

    @property
    def id(self):
        if (tracer := current_tracer()) is not None:
            tracer.leave_to_eager("[register_hook] the number of a hook", warns=True)
        return self._outside.id

    def remove(self):
        tracer = current_tracer()
        if self._number is not None:
            tracer.remove_hook(self._number)
        elif tracer is not None:
            tracer.leave_to_eager("[remove] a hook of a tensor from outside is taken away inside", warns=True)
        else:
            self._outside.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def register_hook(func, args, kwargs):
    """Of a tensor from outside a hook of the caller's own tensor; of another one a call in the backward."""
    tracer = current_tracer()
    tensor, hook = args if len(args) == 2 else (args[0], kwargs["hook"])
    if not tracer.requires_grad(tensor):
        tracer.leave_to_eager("[register_hook] a hook of a tensor that requires no gradient", warns=True)
    if not _same_in_each_call(tracer, hook):
        tracer.leave_to_eager("[register_hook] a hook that holds what only this call has made", warns=True)
    if tracer.is_plain_input(tensor):
        handle = _Handle(tensor if isinstance(tensor, TensorProxy) else None)
        _on_input(tensor, hook, handle)
        return handle
    return _Handle(tensor, _put(tracer, tensor, lambda g: [_call_hook(hook, g)], "register_hook"))


def retain_grad(func, args, kwargs):
    """The result of each call gets the gradient, where the function leaves the tensor to its caller."""
    tracer, (tensor,) = current_tracer(), args
    if not tracer.requires_grad(tensor):
        tracer.leave_to_eager("[retain_grad] of a tensor that requires no gradient", warns=True)
    if tracer.is_plain_input(tensor):
        return _on_input(tensor)
    _check(tracer, tensor, "retain_grad")
    if saved_tensors_hooks() != state.parts[-1]["saved_tensors_hooks"]:
        tracer.leave_to_eager("[retain_grad] under hooks for saved tensors, as in a checkpoint", warns=True)
    place = tracer.retain_gradient(tensor)
    state.parts[-1].setdefault("retained", []).append(tensor)
    if place is not None:

        def keep(gradient):
            _keep_gradient(place, gradient)
            return [gradient]

        _put(tracer, tensor, keep, "retain_grad", last=True)
    return None


def retains_grad(func, args, kwargs):
    """Asked by the program."""
    if any(t is args[0] for t in state.parts[-1].get("retained", ())):
        return True
    with torch._C.DisableTorchFunction():
        return func(*args)


def _check(tracer, tensor, name):
    if why := tracer.why_no_hook(tensor):
        tracer.leave_to_eager(f"[{name}] {why}", warns=True)


def _put(tracer, tensor, backward, name, last=False):
    _check(tracer, tensor, name)
    return tracer.put_hook(tensor, backward, name, last)


def _on_input_meta(tensor, hook=None, handle=None):
    """tensor.register_hook(hook); without a hook tensor.retain_grad()."""


def _run_on_input(tensor, hook=None, handle=None):
    with _autograd():
        if hook is None:
            return tensor.retain_grad()
        handle._outside = tensor.register_hook(hook)


_on_input = _executor.register_operator("on_input", meta=_on_input_meta, tags=("state",), fn=_run_on_input)


def _same_in_each_call(tracer, hook):
    """Whether the function, as it was made in this call, does for others."""
    if isinstance(hook, types.MethodType):
        return _is_constant(tracer, hook.__self__) and _same_in_each_call(tracer, hook.__func__)
    if isinstance(hook, types.BuiltinMethodType):
        return _is_constant(tracer, hook.__self__)
    if not tracer.made_inside(hook):
        return callable(hook)
    if not isinstance(hook, types.FunctionType):
        return False
    cells = [c.cell_contents for c in hook.__closure__ or () if tracer.made_inside(c)]
    held = (*cells, *(hook.__defaults__ or ()), *(hook.__kwdefaults__ or {}).values(), *vars(hook).values())
    return all(_is_constant(tracer, value) for value in held)


def _is_constant(tracer, value):
    if isinstance(value, (torch.Tensor, TracedNumber)):
        return False
    if type(value) in _CONSTANTS or not tracer.made_inside(value):
        return True
    return isinstance(value, types.FunctionType) and _same_in_each_call(tracer, value)


# ---- of modules ------------------------------------------------------------------------------------------------------


class _InBackward(BackwardHook):
    """PyTorch's own, for one backward: what it would register with nodes of autograd's is called by the program."""

    def __init__(self, traced):
        super().__init__(traced.module, traced.user_hooks, traced.user_pre_hooks)
        self.n_inputs, self.input_tensors_index = traced.n_inputs, traced.input_tensors_index
        self.n_outputs, self.output_tensors_index = traced.n_outputs, traced.output_tensors_index
        self._set_user_hook(self)
        self.of_inputs = self._registered
        self.setup_output_hook((None,) * self.n_outputs)
        self.of_outputs = self._registered

    def _apply_on_tensors(self, fn, args):
        fn(self)
        return args, self.output_tensors_index

    def register_hook(self, hook):
        self._registered = hook


class ModuleHooks:
    """A call of a module with backward hooks: PyTorch's BackwardHook as the program's acquisition leaves it."""

    def __init__(self, traced):
        self.traced = traced

    def in_this_backward(self):
        notes = _C.backward_notes()
        if self not in notes:
            notes[self] = _InBackward(self.traced)
        return notes[self]


def _of_module_meta(hooks, number, places, gradients, others, flows=None):
    """The gradients of what a module is given or gives, at these places of so many tensors, as its hooks leave them.
    `others`: places and types of what it is given that requires none; None for what it gives."""
    return _several(gradients)


def _run_of_module(hooks, number, places, gradients, others, flows=None):
    of_inputs, come = others is not None, [_flows(flows, i) for i in range(len(gradients))]
    if not any(come):
        return _several(gradients)
    given = [None] * number
    for place, gradient, comes in zip(places, gradients, come, strict=True):
        # The node of eager gives zeros where nothing comes.
        given[place] = gradient if comes or of_inputs else None
    for place, shape, dtype, device in others or ():
        given[place] = torch.zeros(shape, dtype=dtype, device=device)
    state = hooks.in_this_backward()
    with _autograd(), torch.no_grad():
        made = state.of_inputs(tuple(given), None) if of_inputs else state.of_outputs(None, tuple(given))
    if made is None:
        return _several(gradients)
    kind = "backward hook of a module"
    return _several([_replaced(made[p], g, kind) for p, g in zip(places, gradients, strict=True)])


_call_module_hooks = _executor.register_operator(
    "call_module_hooks", meta=_of_module_meta, tags=("state",), fn=_run_of_module
)


def _hooked(tracer, self, args, of_inputs):
    """The tensors among arguments or results of a module, behind its hooks; and where they are, as in PyTorch."""
    places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]
    wanted = [n for n, i in enumerate(places) if tracer.requires_grad(args[i])]
    if not wanted or not torch.is_grad_enabled():
        return args, None
    made = list(args)
    record = self.__dict__.setdefault("_traced_hooks", ModuleHooks(self))
    tensors = [args[places[n]] for n in wanted]
    others = None
    if of_inputs:
        rest = [(n, args[i]) for n, i in enumerate(places) if n not in wanted]
        others = [[n, list(tracer.shape(t)), t.dtype, t.device] for n, t in rest]

    def backward(*gradients):
        made = _call_module_hooks(record, len(places), list(wanted), list(gradients), others)
        return [made] if isinstance(made, torch.Tensor) else list(made)

    for n, t in zip(wanted, tracer.with_gradient(tensors, tensors, backward, "backward_hooks"), strict=True):
        tracer.forbid_writes(t)
        made[places[n]] = t
    return (tuple(made) if type(args) is tuple else type(args)(*made)), places


def _check_module(tracer, self):
    hooks = (*self.user_hooks, *self.user_pre_hooks)
    if not all(_same_in_each_call(tracer, hook) for hook in hooks):
        tracer.leave_to_eager(
            "[register_full_backward_hook] a hook that holds what only this call has made", warns=True
        )
    if tracer.made_inside(self.module):
        tracer.leave_to_eager("[register_full_backward_hook] of a module that the function makes", warns=True)


def _setup_input_hook(func, args, kwargs):
    tracer, (self, given) = current_tracer(), args
    _check_module(tracer, self)
    made, self.input_tensors_index = _hooked(tracer, self, given, True)
    self.n_inputs = len(given)
    return made


def _setup_output_hook(func, args, kwargs):
    tracer, (self, given) = current_tracer(), args
    _check_module(tracer, self)
    several = given if isinstance(given, tuple) else (given,)
    made, self.output_tensors_index = _hooked(tracer, self, several, False)
    self.n_outputs = len(several)
    return made if isinstance(given, tuple) else made[0]


# What stands for methods of PyTorch's BackwardHook.
of_modules = {
    "utils.hooks.BackwardHook.setup_input_hook": _setup_input_hook,
    "utils.hooks.BackwardHook.setup_output_hook": _setup_output_hook,
}
