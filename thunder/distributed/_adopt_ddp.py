"""`thunder.jit(DistributedDataParallel(module))`: the module's programs reduce gradients, and PyTorch's reducer goes.

The DistributedDataParallel object stays what the user sees: its `state_dict()`, hooks, `no_sync()` and broadcasts of
buffers. Its forward calls the compiled module, in calls of the object itself as well.
"""

import weakref

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.utils import _to_kwargs

from .._marks import refusal
from ..module import ThunderDDP
from ._adopt import NotAdopted, refuse
from ._agree import agree_on_parameters
from ._plan import DistributedState, state_of
from ._wrap import replicate

_HOOKS = (
    "register_comm_hook", "_register_builtin_comm_hook", "_register_fused_optim", "_register_buffer_comm_hook",
)  # fmt: skip


class Adopted(ThunderDDP):
    """Calls go through the DistributedDataParallel object, with its own hooks, to the compiled module in it."""

    def __call__(self, *args, **kwargs):
        return self._original(*args, **kwargs)

    forward = __call__


class AdoptedState(DistributedState):
    """The wrapper's own flag, which its no_sync() sets, says whether gradients are reduced."""

    def __init__(self, wrapper, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._wrapper = weakref.ref(wrapper)

    @property
    def synchronizes(self):
        return self._wrapper().require_backward_grad_sync

    @synchronizes.setter
    def synchronizes(self, on):
        self._wrapper().require_backward_grad_sync = on


def adopt(model, wrapper):
    """Makes `wrapper` call programs that reduce gradients."""
    state = state_of(wrapper)
    if state is None:
        _check(wrapper)
        state = _distribute(wrapper)
        for owner in (wrapper, wrapper.module):
            object.__setattr__(owner, "_thunder_plan", state)
    model._compile(wrapper.module)
    object.__setattr__(wrapper, "forward", _forward(wrapper, state, model._compiled))


def undo(model, wrapper, state):
    """Makes `wrapper` PyTorch's again, of which no program has run."""
    state.plan.forget()
    for owner in (wrapper, wrapper.module):
        object.__delattr__(owner, "_thunder_plan")
    object.__delattr__(wrapper, "forward")
    model._compile(wrapper)


def settle(wrapper):
    """Takes PyTorch's reducer away, whose hooks have done nothing yet: the forward did not prepare it."""
    wrapper._remove_autograd_hooks()
    # The last references: its destructor gives the buckets' memory back.
    wrapper.logger = None
    wrapper.reducer = _Reducer()
    for name in _HOOKS:
        refuse(wrapper, name, "or compile inside: DistributedDataParallel(thunder.jit(module))")
    for name in ("join", "join_hook"):
        refuse(wrapper, name, "call that of what thunder.jit returned")


def _check(wrapper):
    """NotAdopted says what of the wrapper's settings programs do not do."""
    # PyTorch has none where all reductions are delayed.
    hook = wrapper.logger is not None and wrapper._get_ddp_logging_data().get("comm_hook")
    if hook:
        raise refusal(
            f"[jit] DistributedDataParallel with the communication hook {hook} cannot be compiled, as programs reduce "
            "gradients themselves. Remove the hook, or compile inside: DistributedDataParallel(thunder.jit(module))"
        )
    for there, what in (
        (getattr(wrapper, "mixed_precision", None) is not None, "mixed_precision"),
        (getattr(wrapper, "_use_python_reducer", False), "torch._dynamo.config.optimize_ddp = 'python_reducer'"),
        (getattr(wrapper, "_delay_all_reduce_params", []), "delay_all_reduce_named_params"),
        (hasattr(wrapper, "buffer_hook"), "a communication hook for buffers"),
        (wrapper._join_config.enable, "join() before its first call"),
        (wrapper.is_multi_device_module, "parameters on several devices"),
        (any(isinstance(p, DTensor) for p in wrapper.parameters()), "parameters that are DTensors"),
        (any(hasattr(p, "_in_backward_optimizers") for p in wrapper.parameters()), "optimizers in the backward"),
        (any(getattr(m, "sparse", False) for m in wrapper.modules() if _looks_up(m)), "sparse gradients"),
    ):
        if there:
            raise NotAdopted(f"DistributedDataParallel with {what} is not compiled")


def _looks_up(module):
    return isinstance(module, (nn.Embedding, nn.EmbeddingBag))


def _distribute(wrapper):
    module, group = wrapper.module, wrapper.process_group
    parameters = dict(module.named_parameters())
    ignored = {n: p for n, p in parameters.items() if n in wrapper.parameters_to_ignore}
    parameters = {n: p for n, p in parameters.items() if n not in ignored}
    size = "auto" if getattr(wrapper, "bucket_bytes_cap_default", False) else wrapper.bucket_bytes_cap / 1024**2
    agree_on_parameters(group, parameters, "DistributedDataParallel", size)
    state = AdoptedState(wrapper, group, group, kind="ddp")
    replicate(state, module, parameters, size)
    state.others = ignored
    state.share_memory()
    return state


class _Reducer:
    """In the place of PyTorch's, whose hooks on parameters and memory for gradients are gone."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(
            f"[jit] DistributedDataParallel.reducer.{name}: the reducer is gone since the first call of the compiled "
            "module, whose programs reduce gradients"
        )


def _forward(wrapper, state, compiled):
    """DistributedDataParallel.forward, over the compiled module."""
    plan = state.plan

    def forward(*args, **kwargs):
        synchronizes = wrapper.require_backward_grad_sync
        if plan.synchronizes is not synchronizes:
            plan.synchronizes = synchronizes
        if wrapper._check_sync_bufs_pre_fwd():
            wrapper._sync_buffers()
        wrapper.require_forward_param_sync = synchronizes and torch.is_grad_enabled()
        if wrapper.device_ids:
            device = torch.device(wrapper.device_type, wrapper.device_ids[0])
            moved, moved_kwargs = _to_kwargs(args, kwargs, device, wrapper.use_side_stream_for_tensor_copies)
            args, kwargs = moved[0], moved_kwargs[0]
        return compiled(*args, **kwargs)

    return forward
