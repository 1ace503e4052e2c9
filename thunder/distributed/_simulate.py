"""What a step of a distributed model would take on a device and networks that are not here."""

import contextlib
import dataclasses
import os
from unittest import mock

import torch
from torch.utils._pytree import tree_map

from .. import _C
from .._marks import refusal
from .._options import Options
from ..module import ThunderModule
from ._plan import (
    DistributedState,
    FSDPBucketingStrategy,
    FSDPType,
    buckets_of_shards,
    bytes_in_flight,
    state_of,
)
from ._wrap import _holders, _parameters_of, owners_of, replicate

_DEVICE = "cuda:0"
_STRATEGIES = {None: None, "ddp": "ddp", "zero2": FSDPType.ZERO2, "zero3": FSDPType.ZERO3}


def simulate(
    model,
    args=(),
    kwargs=None,
    *,
    world,
    node=None,
    fabric=None,
    strategy="zero3",
    copies=1,
    loss=None,
    device="h200",
    bucketing_strategy=FSDPBucketingStrategy.AUTO,
    bucket_size_in_mb="auto",
    param_dtype=None,
    reduce_dtype=None,
    in_flight_mb="auto",
    executors=None,
):
    """Compiles a step for one of `world` processes and estimates its time, communication and memory.

    Nothing is run, and neither the device nor the other processes are needed: the program is acquired here, once, as if
    all tensors lay on the device. A model and arguments on the meta device take no memory. The model stays as it is.

    Args:
        model: A module, or one compiled by `thunder.jit`, whose options are taken; not distributed yet.
        args, kwargs: Those of one process's call; tensors on any device.
        world: How many processes there are.
        node: How many of them share a node; None: as many as the device's cost table says, of the built-in one 8.
        fabric: The fabric within a node, and behind a `+` the one between nodes: names of the device's cost table. Or
            lines of a cost table, as text or the path of a file, that add to the device's and replace its lines. None:
            the device's, "nvlink+infiniband" of the built-in one.
        strategy: "ddp", "zero2" or "zero3"; None: one process alone.
        copies: Hybrid sharding: so many times, `world // copies` processes share the parameters; with 1 all do.
        loss: A function of the model's result that gives the loss; None: the backward begins with a gradient of each
            result that needs one.
        device: The name of a built-in cost table: "h100", "h200". Or a whole cost table, as text or the path of a
            file, such as `costs.measure` makes.
        bucketing_strategy, param_dtype, reduce_dtype, in_flight_mb: As for `fsdp`.
        bucket_size_in_mb: As for `ddp`.
        executors: As for `thunder.jit`; None: those of a compiled model, or the default ones.

    Returns:
        A `Simulation`: `step`, `compute`, `slowed`, `exposed`, `spread` in seconds, `peak` in bytes, `waits` (each with
        `name`, `bytes`, `seconds`, `exposed`), `memory` (pairs of seconds and bytes) and `traces` (the programs: the
        forward's, and the backward's if there is one). `str()` is a report. Kernels' times are estimates from shapes;
        the report's notes say what of the table was measured. Optimizer states and the optimizer's step are not
        included.

    Raises:
        ValueError: An unknown device, fabric or strategy; a line of a cost table, with its number; a cost table without
            a line that the program needs.
        NotImplementedError: No program stands for the call, it asks for values of its tensors, or a size is known only
            when the program runs.
        RuntimeError: The model is distributed already.
        TypeError: `args` is a tensor.
    """
    if strategy not in _STRATEGIES and strategy not in _STRATEGIES.values():
        raise ValueError(f"[simulate] unknown strategy {strategy!r}; there are 'ddp', 'zero2', 'zero3', None")
    if world < 1:
        raise ValueError(f"[simulate] a world of at least one process was expected, got {world}")
    if copies < 1 or world % copies != 0 or (copies > 1 and strategy in (None, "ddp")):
        raise ValueError(f"[simulate] {copies} copies of shards do not fit the strategy {strategy} and world={world}")
    strategy = _STRATEGIES.get(strategy, strategy)
    table = _table(device)
    table = table.with_lines(_lines(table, fabric, node))
    if isinstance(args, torch.Tensor):
        raise TypeError("[simulate] args is a tuple of the call's arguments, got a tensor")
    module, options = model, Options()
    if isinstance(model, ThunderModule):
        module, options = model._original, model._options
    options = dataclasses.replace(options, cache="constant values", graphs=False)
    if executors is not None:
        options = dataclasses.replace(options, executors=executors)
    if any(state_of(m) is not None for m in module.modules()):
        raise RuntimeError("[simulate] the module, or a part of it, is distributed already; give one that is not")
    program = _WithLoss(module, loss) if loss else module
    with _moved(program) as moved:
        args, kwargs = moved((tuple(args), kwargs or {}))
        state = None  # parameters are the plan's as long as it lives
        if strategy == "ddp":
            state = _replicate(module, world, bucket_size_in_mb)
        elif strategy is not None:
            in_flight = bytes_in_flight(in_flight_mb)
            state = _shard(module, world, copies, strategy, bucketing_strategy, param_dtype, reduce_dtype, in_flight)
        compiled = _C.make_function(program, program, options)
        traces = _C.compile_for(compiled, table.capability, table.cudnn_version, args, kwargs)
        del state
    out = _C.simulate(*traces, table)
    out.traces = [t for t in traces if t is not None]
    return out


class _World:
    """As much of a process group as a plan asks for."""

    def __init__(self, name, size):
        self.group_name = name
        self.size = lambda: size


class _WithLoss(torch.nn.Module):
    def __init__(self, model, loss):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, *args, **kwargs):
        return self.loss(self.model(*args, **kwargs))


def _text_of_table(given):
    """The lines that are given as text or as the path of a file; None: it is neither."""
    if "\n" in given:
        return given
    if not os.path.isfile(given):
        return None
    with open(given, encoding="utf-8") as f:
        return f.read()


def _table(device):
    text = _text_of_table(device)
    return _C.CostTable.built_in(device) if text is None else _C.CostTable.parse(text)


def _lines(table, fabric, node):
    if fabric is None and node is None:
        return ""
    fabric = table.fabric if fabric is None else fabric
    text = _text_of_table(fabric)
    if text is not None:
        if node is not None:
            raise ValueError(f"[simulate] node={node} was given beside a cost table; write 'node {node} ...' there")
        return text
    names = fabric.split("+")
    if not all(names) or len(names) > 2 or any(len(n.split()) != 1 for n in names):
        raise ValueError(
            f"[simulate] fabric={fabric!r} is neither a file, nor lines of a cost table, nor names such as "
            "'nvlink+infiniband'"
        )
    return f"node {8 if node is None else node} {' '.join(names)}"


def _refuse_values():
    raise refusal("[simulate] the program depends on the values of its tensors, and nothing is run")


class _Elsewhere(torch.Tensor):
    """A tensor on a device that need not be here: a type, and no data."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def like(t):
        made = torch.Tensor._make_wrapper_subclass(
            _Elsewhere, t.shape, strides=t.stride(), dtype=t.dtype, device=_DEVICE, requires_grad=t.requires_grad
        )
        made.__dict__.update(t.__dict__)
        made._is_param = isinstance(t, torch.nn.Parameter)
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        _refuse_values()


@contextlib.contextmanager
def _moved(module):
    """The module's parameters and buffers, and what a function gives it, are on the device for a while.

    Gives the function.
    """
    made, before = {}, []

    def move(t):
        if not isinstance(t, torch.Tensor) or isinstance(t, _Elsewhere):
            return t
        if id(t) not in made:
            made[id(t)] = t, _Elsewhere.like(t)
        return made[id(t)][1]

    try:
        for m in module.modules():
            for held in (m._parameters, m._buffers):
                before.append((held, dict(held)))
                for name, t in held.items():
                    held[name] = move(t)
        with (
            # Else autocast for a GPU switches itself off.
            mock.patch("torch.cuda.amp.common.amp_definitely_not_available", lambda: False),
            mock.patch("torch.cuda.is_bf16_supported", lambda *_, **__: True),
            mock.patch("torch.cuda._lazy_init", _refuse_values),
        ):
            yield lambda tree: tree_map(move, tree)
    finally:
        for held, values in before:
            held.update(values)


def _replicate(module, world, bucket_size_in_mb):
    group = _World("simulated", world)
    state = DistributedState(group, group, kind="ddp")
    replicate(state, module, _parameters_of(module), bucket_size_in_mb)
    return state


def _shard(module, processes, copies, strategy, bucketing_strategy, param_dtype, reduce_dtype, in_flight):
    parameters, owners = _parameters_of(module), owners_of(module)
    world = processes // copies
    state = DistributedState(
        _World("simulated", world),
        _World("simulated.reductions", world),
        kind="fsdp",
        regather=strategy is FSDPType.ZERO3,
        reduce_dtype=reduce_dtype,
        bytes_in_flight=in_flight,
        replicas=_World("simulated.replicas", copies) if copies > 1 else None,
    )
    for name, bucket in buckets_of_shards(parameters, bucketing_strategy, param_dtype).items():
        p = parameters[name]
        holders = _holders(owners[p])
        if p.dim() == 0:
            state.plan.add_replicated(name, p, bucket, holders)
            continue
        rows = _Elsewhere.like(torch.empty(-(-p.shape[0] // world), *p.shape[1:], dtype=p.dtype, device="meta"))
        dtype = str(param_dtype or p.dtype).removeprefix("torch.")
        state.plan.add_sharded(name, p, rows, list(p.shape), dtype, bucket, None, holders)
    return state
