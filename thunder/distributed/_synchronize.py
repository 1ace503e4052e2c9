"""When gradients are reduced."""

import contextlib

import torch
from torch import distributed
from torch.distributed.tensor import DTensor

from .._watching import watched
from ..module import Unadopted
from ._adopt import adopt
from ._plan import all_states, state_of


def set_requires_gradient_sync(module, requires):
    """Whether backwards of calls from now on reduce gradients.

    Where they do not, gradients of whole parameters (`ddp`, `FSDPType.ZERO2`) are kept, `.grad` stays as it is, and the
    next backward that reduces takes them along. With `FSDPType.ZERO3` every backward reduces.
    """
    _state(module).synchronizes = requires


def _state(module):
    if isinstance(module, Unadopted):
        adopt(module)
    state = state_of(module)
    if state is None:
        raise RuntimeError("[distributed] the module is not distributed: wrap it with ddp() or fsdp() first")
    return state


@contextlib.contextmanager
def no_sync(module):
    """Calls of the module inside do not reduce gradients in their backwards: for all micro-batches but the last one.

        with thunder.distributed.no_sync(model):
            loss(model(first)).backward()
        loss(model(second)).backward()
    """
    with _without_sync([_state(module)]):
        yield


@contextlib.contextmanager
def skip_data_parallel_grad_sync():
    """`no_sync` of all distributed modules that there are, for programs that call several of them."""
    with _without_sync(all_states()):
        yield


@contextlib.contextmanager
def _without_sync(states):
    before = [(state, state.synchronizes) for state in states]
    for state, _ in before:
        state.synchronizes = False
    try:
        yield
    finally:
        for state, synchronizes in before:
            state.synchronizes = synchronizes


@torch.no_grad()
def sync_grads(module):
    """Reduces the gradients that backwards within `no_sync()` have kept, and adds the means to `.grad`.

    The next backward that reduces does the same by itself: this is for programs without one. All processes of the group
    call it together.

    Raises:
        RuntimeError: The module is not distributed.
    """
    state = _state(module)
    kept = dict(state.plan.take_kept_gradients())
    trainable = {name: p for name, p in state.parameters.items() if p.requires_grad}
    if not trainable:
        return
    # A process may have used other parameters than another one.
    device = next(iter(trainable.values())).device
    used = torch.tensor([float(name in kept) for name in trainable], device=device)
    with watched(state.everyone, "the others' gradients"):
        distributed.all_reduce(used, distributed.ReduceOp.MAX, state.everyone)
        for (name, p), somewhere in zip(trainable.items(), used.tolist(), strict=True):
            if somewhere:
                mean = _mean(state, name, p, kept.pop(name, None))
                p.grad = mean if p.grad is None else p.grad.add_(mean)


def _mean(state, name, p, gradient):
    """Of the processes' whole gradients, of which None is zeros: as a whole, or this process's rows as a DTensor."""
    world, processes, sharded = state.group.size(), state.everyone.size(), name in state.sharded
    dtype = state.reduce_dtype or (state.param_dtype if sharded else None) or p.dtype
    if not sharded:
        whole = torch.zeros_like(p, dtype=dtype) if gradient is None else gradient.to(dtype, copy=True)
        distributed.all_reduce(whole, group=state.everyone)
        return (whole / processes).to(p.dtype)
    shape = state.sharded[name]
    rows = -(-shape[0] // world)
    padded = torch.zeros((rows * world, *shape[1:]), dtype=dtype, device=p.device)
    if gradient is not None:
        padded[: shape[0]] = gradient
    mine = padded.new_empty((rows, *shape[1:]))
    distributed.reduce_scatter_tensor(mine, padded, group=state.group)
    if state.replicas is not None:
        distributed.all_reduce(mine, group=state.replicas)
    mine = (mine / processes).to(p.dtype)[: p.to_local().shape[0]]
    return DTensor(mine, p.data._spec, requires_grad=False)
