"""Uneven inputs: processes that have no more data take part in the collectives of those that have some.

Each call of a module within a context tells all processes, by one small all_reduce, what kind of call it is and who
makes it. A process that has left its loop, a joined one, reads that and does the collectives of such a call from the
plan alone, without a program.
"""

import functools

import torch
from torch.distributed.algorithms.join import Join, JoinHook, _JoinConfig
from torch.nn.parallel import DistributedDataParallel

from .. import _C
from .._marks import refusal
from .._tracing import current_tracer
from ..module import Unadopted
from ._plan import state_of
from ._wrap import broadcast


def join(model, divide_by_initial_world_size, enable, throw_on_early_termination, step):
    """The context of `ThunderModule.join`."""
    options = {"divide_by_initial_world_size": divide_by_initial_world_size, "step": step}
    # Without either no process goes on when another one has no more data.
    shadows = enable and not throw_on_early_termination
    return _Context([model], enable, throw_on_early_termination, **options, shadows=shadows)


def join_hook(model, divide_by_initial_world_size=True, step=None, shadows=True, **_):
    """What a context calls for a module that Thunder distributes, once it has no more data.

    Raises:
        NotImplementedError: The module is sharded, and `step` is None.
        RuntimeError: The module is not distributed, or has nothing to train.
    """
    state = distributed_state(model)
    if not any(p.requires_grad for p in state.parameters.values()):
        raise RuntimeError("[join] the module has no parameter with a gradient; call it without join()")
    if shadows and state.sharded and step is None:
        raise refusal(
            "[join] a sharded module needs join(step=...): rows that a process without data holds are updated by its "
            "own optimizer alone. Give a function that does what follows each backward that reduces: clipping, "
            "optimizer.step(), optimizer.zero_grad(); or replicate the module by ddp()"
        )
    hook = Hook(model, state, divide_by_initial_world_size, step)
    object.__setattr__(model, "__class__", _joining(hook.before))
    return hook


def distributed_state(model):
    """The DistributedState of a compiled module. RuntimeError if it has none."""
    if isinstance(model, Unadopted):
        raise RuntimeError("[join] call the module once on all processes before join(): its first call makes programs")
    state = state_of(model._original)
    if state is None:
        raise RuntimeError("[join] the module is not distributed: wrap it with ddp() or fsdp() first")
    return state


def device_of(state):
    """Where a model's collectives are."""
    return next(iter(state.parameters.values())).device


class _Context(Join):
    """Other processes' failures end what it waits for, and it leaves the module as it was."""

    def __enter__(self):
        for hook in self._join_hooks:
            hook.state.plan.joining = self._enable

    def __exit__(self, kind, value, trace):
        try:
            return super().__exit__(kind, value, trace)
        finally:
            for hook in self._join_hooks:
                hook.leave()

    def _get_num_nonjoined_procs(self):
        return self._join_hooks[0].reduced([0.0], "sum").item()


@functools.cache
def _joining(kind):
    """The class of a compiled module within a context: its calls tell the processes that have no more data."""

    class Joining(kind):
        def __call__(self, *args, **kwargs):
            if self._join_config.enable and not current_tracer():
                state_of(self._original).joining.notify()
            return super().__call__(*args, **kwargs)

        forward = __call__

    return Joining


class Hook(JoinHook):
    """Of one module and context.

    Attributes:
        before: The module's class outside of the context.
    """

    def __init__(self, model, state, by_world, step):
        self.model, self.state, self.by_world, self.step = model, state, by_world, step
        self.before = state.joining.before if state.joining else type(model)
        wrapper = model._original
        self.wrapper = wrapper if isinstance(wrapper, DistributedDataParallel) else None
        copy = 0 if state.replicas is None else state.replicas.rank()
        self._place = copy * state.group.size() + state.group.rank()  # among all processes
        self._backwards = None  # how many there are to be before the next call
        state.joining = self

    def notify(self):
        """Before a call with data.

        Raises:
            RuntimeError: The backward of the call before is not over, or processes make calls of different kinds.
        """
        self._check_backward()
        state = self.state
        work = Join.notify_join_context(self.model)
        differentiates = torch.is_grad_enabled()
        synchronizes = differentiates and state.synchronizes
        reduces = synchronizes or (differentiates and state.regather)
        said = [float(differentiates), float(synchronizes), *(0.0 for _ in range(state.everyone.size()))]
        said[2 + self._place] = 1.0
        heard = self.reduced(said, "sum")
        if work is not None:
            work.wait()
        # A GPU is waited for only where its answer is needed.
        known = state.plan.knows_order(differentiates, reduces)
        if heard.device.type == "cpu" or not known or not self.by_world:
            self._hear(heard)
        if reduces:
            self._backwards = state.plan.backwards + 1
        state.plan.joining = True
        state.plan.tell()

    def main_hook(self):
        """A call of the others."""
        self._check_backward()
        state = self.state
        differentiates, synchronizes = self._hear(self.reduced([0.0] * (2 + state.everyone.size()), "sum"))
        if self.wrapper is not None:
            self.wrapper._check_and_sync_module_buffers()
            self.wrapper.require_forward_param_sync = synchronizes
        reduces = synchronizes or (differentiates and state.regather)
        means = state.plan.shadow(differentiates, reduces, self.step is not None)
        with torch.no_grad():
            for name, mean in means:
                p = state.parameters[name]
                p.grad = mean if p.grad is None else p.grad.add_(mean)
        if synchronizes and self.step is not None:
            self.step()

    def post_hook(self, is_last_joiner):
        """All processes have joined: replicated parameters become those of the last one, as in PyTorch."""
        self._check_backward()
        state = self.state
        if self.wrapper is not None:
            self.wrapper._sync_final_model(is_last_joiner)
        elif not state.sharded:
            source = self.reduced([float(state.group.rank() if is_last_joiner else -1)], "max").item()
            broadcast(state.parameters.values(), state.group, int(source))
        self.leave()

    def leave(self):
        """Calls are as outside of the context."""
        if self.state.joining is not self:
            return
        self.state.joining, self.state.plan.joining = None, False
        self.state.plan.first, self.state.plan.scale = (0, 0), 1.0
        self.model._join_config = _JoinConfig.construct_disabled_join_config()
        object.__setattr__(self.model, "__class__", self.before)

    def reduced(self, values, op):
        """Numbers of all processes, reduced."""
        values = torch.tensor(values, device=device_of(self.state))
        return _C.all_reduce(self.state.everyone.group_name, values, op, "the calls in join()")

    def _hear(self, heard):
        """What kind of call it is: (whether it has a backward, whether gradients are reduced for the optimizer)."""
        state = self.state
        differentiating, synchronizing, *here = heard.tolist()
        active = [rank for rank, there in enumerate(here) if there]
        if {differentiating, synchronizing} - {0.0, float(len(active))}:
            text = (
                f"[join] of processes {active} that call the module some do so with gradients, and outside of "
                "no_sync(), and some do not; all are to make calls of one kind"
            )
            if heard.device.type != "cpu":  # others have not looked
                _C.post_failure(text)
            raise RuntimeError(text)
        copy, rank = divmod(active[0], state.group.size())
        state.plan.first = rank, copy
        if not self.by_world:
            state.plan.scale = state.everyone.size() / len(active)
        return differentiating > 0, synchronizing > 0

    def _check_backward(self):
        """Collectives of a call that come behind those of the next one would meet others."""
        expected, self._backwards = self._backwards, None
        if expected is not None and self.state.plan.backwards != expected:
            text = (
                f"[join] {self.state.plan.backwards - expected + 1} backwards followed a call of the module. Within "
                "join() one follows each, before the next call; calls without a backward are to be in torch.no_grad()"
            )
            _C.post_failure(text)
            raise RuntimeError(text)
