"""Wrapping: a module's parameters are replicated or sharded, in place, and belong to a communication plan."""

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from .. import _C
from .._marks import refusal
from .._watching import watched
from ._agree import agree_on_parameters
from ._plan import (
    DistributedState,
    FSDPBucketingStrategy,
    FSDPType,
    buckets_of_gradients,
    buckets_of_shards,
    bytes_in_flight,
    group_of_mesh,
    group_or_world,
    second_group,
    state_of,
)


def ddp(model, *, broadcast_from=0, bucket_size_in_mb="auto", process_group=None, transport="auto"):
    """Replicates a module: every process computes on data of its own, and gradients are averaged over the processes.

    Args:
        model: A module, or one compiled by `thunder.jit`.
        broadcast_from: The rank in the group whose parameters and buffers all processes take; None: each keeps its own.
        bucket_size_in_mb: The most megabytes of gradients that one collective reduces; "auto": 64.
        process_group: The processes; None: all.
        transport: What moves gradients: "backend", the process group's; "auto": copies between GPUs where all
            processes' are linked on one machine, else the backend.

    Returns:
        The module.

    Raises:
        RuntimeError: There is no process group, or the module is wrapped already.
        ValueError: Processes have other parameters, settings or versions; then on every process.
    """
    module = _original(model)
    group = group_or_world(process_group)
    parameters = _parameters_of(module)
    if any(p.is_meta for p in parameters.values()):
        raise RuntimeError("[distributed] the module has parameters on the meta device; give them memory first")
    agree_on_parameters(group, parameters, "ddp", bucket_size_in_mb, _checked(transport))
    if broadcast_from is not None:
        broadcast([*parameters.values(), *module.buffers()], group, broadcast_from)
    state = DistributedState(group, group, kind="ddp")
    replicate(state, module, parameters, bucket_size_in_mb)
    if transport == "auto":
        state.share_memory()
    return _attach(model, module, state)


def _checked(transport):
    if transport not in ("auto", "backend"):
        raise ValueError(f'[distributed] transport: "auto" or "backend" was expected, got {transport!r}')
    return transport


def replicate(state, module, parameters, bucket_size_in_mb):
    """Adds a module's `parameters`, tensors by name, of which every process has the whole."""
    owners = owners_of(module)
    for name, bucket in buckets_of_gradients(parameters, bucket_size_in_mb).items():
        state.plan.add_replicated(name, parameters[name], bucket, _holders(owners[parameters[name]]))
        state.parameters[name] = parameters[name]


def fsdp(
    model,
    device=None,
    broadcast_from=None,
    sharding_strategy=FSDPType.ZERO2,
    bucketing_strategy=FSDPBucketingStrategy.AUTO,
    *,
    process_group=None,
    mesh=None,
    param_dtype=None,
    reduce_dtype=None,
    in_flight_mb="auto",
    transport="auto",
):
    """Shards a module: each process keeps a part of each parameter, of its gradient and of the optimizer's state.

    A parameter becomes a DTensor, split by rows, whose local part may have fewer rows on the last processes. Programs
    gather what they need, and give each process its part of the gradients' mean.

    Args:
        model: A module, or one compiled by `thunder.jit`. Parameters on the meta device get memory for their part, and
            `reset_parameters()` of the modules that have such is called.
        device: Where the parameters are to lie; None: where they are, from the meta device the current accelerator.
        broadcast_from: The rank among all of the processes whose parameters and buffers all take; None: each its own
            rows, in a mesh of 2 dimensions those of the processes of its first row.
        sharding_strategy: Whether parameters are kept from the forward to the backward (`FSDPType.ZERO2`) or gathered
            again (`FSDPType.ZERO3`).
        bucketing_strategy: Which parameters one collective takes.
        process_group: The processes; None: all, or those of `mesh`.
        mesh: A DeviceMesh instead of a group. One of 2 dimensions shards in the second and replicates in the first
            (hybrid sharding): parameters are gathered within a row of the mesh, and gradients reduced over all of it.
        param_dtype: What parameters are cast to before they are gathered; the program sees them in it. None: as is.
        reduce_dtype: What gradients are reduced in; None: the dtype of the gathered parameters.
        in_flight_mb: The most megabytes of parameters that are gathered ahead of their use, and of gradients that are
            being reduced; one bucket may be more. "auto": 256.
        transport: What moves parameters and gradients: "backend", the process group's; "auto": copies between GPUs
            where all processes' are linked on one machine, else the backend.

    Returns:
        The module. Make its optimizer afterwards: the parameters are other objects.

    Raises:
        RuntimeError: There is no process group, or the module is wrapped already.
        ValueError: Processes have other parameters, settings or versions; then on every process.
        TypeError: A strategy is none of the enumerations' members.
        NotImplementedError: The mesh has more dimensions.
    """
    for value, kind in ((sharding_strategy, FSDPType), (bucketing_strategy, FSDPBucketingStrategy)):
        if not isinstance(value, kind):
            raise TypeError(f"[fsdp] a member of {kind.__name__} was expected, got {value!r}")
    module = _original(model)
    if mesh is not None and mesh.ndim > 2:
        raise refusal(f"[fsdp] a mesh of 1 or 2 dimensions was expected, got {mesh.ndim}: {mesh}")
    group = group_or_world(mesh.get_group(mesh.ndim - 1) if mesh is not None else process_group)
    replicas = mesh.get_group(0) if mesh is not None and mesh.ndim == 2 and mesh.size(0) > 1 else None
    everyone = group_of_mesh(mesh) if replicas is not None else group
    parameters = _parameters_of(module)
    settings = (sharding_strategy, bucketing_strategy, param_dtype, reduce_dtype, in_flight_mb, _checked(transport))
    agree_on_parameters(everyone, parameters, "fsdp", *settings)
    _materialise(module, device)
    parameters = _parameters_of(module)
    if broadcast_from is not None:
        broadcast([*parameters.values(), *module.buffers()], everyone, broadcast_from)
    state = DistributedState(
        group,
        second_group(group),
        kind="fsdp",
        regather=sharding_strategy is FSDPType.ZERO3,
        param_dtype=param_dtype,
        reduce_dtype=reduce_dtype,
        bytes_in_flight=bytes_in_flight(in_flight_mb),
        replicas=replicas,
        everyone=everyone,
    )
    buckets = buckets_of_shards(parameters, bucketing_strategy, param_dtype)
    if mesh is None and parameters:
        mesh = DeviceMesh.from_group(group, next(iter(parameters.values())).device.type)
    if transport == "auto":
        state.share_memory()
    memory = _memory_of_shards(state, parameters, param_dtype)
    owners = owners_of(module)
    for name, parameter in parameters.items():
        _shard(state, mesh, name, parameter, owners[parameter], buckets[name], param_dtype, memory.get(name))
    if replicas is not None and broadcast_from is None:
        broadcast([getattr(p.data, "_local_tensor", p) for p in state.parameters.values()], replicas, 0)
    return _attach(model, module, state)


def _rows(state, parameter):
    """Of each process's part."""
    return -(-parameter.shape[0] // state.group.size())


def _memory_of_shards(state, parameters, param_dtype):
    """For parameters that are gathered as they are, by name, if other processes can copy from there."""
    if not all(p.is_cuda for p in parameters.values()):
        return {}
    shards = {
        name: torch.empty((_rows(state, p), *p.shape[1:]), dtype=p.dtype, device="meta")
        for name, p in parameters.items()
        if p.dim() > 0 and param_dtype in (None, p.dtype)
    }
    return dict(zip(shards, state.memory_for(list(shards.values())) or (), strict=False))


def _shard(state, mesh, name, parameter, owners, bucket, param_dtype, memory):
    if parameter.dim() == 0:  # a DTensor has no rows to split
        state.plan.add_replicated(name, parameter, bucket, _holders(owners))
        state.parameters[name] = parameter
        return
    rank, rows = state.group.rank(), _rows(state, parameter)
    whole = parameter.detach().contiguous()
    first, last = (min(whole.shape[0], n * rows) for n in (rank, rank + 1))
    memory = whole.new_empty((rows, *whole.shape[1:])) if memory is None else memory
    memory[last - first :].zero_()
    memory[: last - first].copy_(whole[first:last])
    shape, stride = whole.shape, whole.stride()
    part = DTensor.from_local(
        memory[: last - first],
        mesh,
        [Replicate()] * (mesh.ndim - 1) + [Shard(0)],
        run_check=False,
        shape=shape,
        stride=stride,
    )
    sharded = torch.nn.Parameter(part, parameter.requires_grad)
    for key, value in parameter.__dict__.items():
        setattr(sharded, key, value)
    for owner, attribute in owners:
        setattr(owner, attribute, sharded)
    add_shard(state, name, sharded, memory, owners, bucket, param_dtype or parameter.dtype)


def add_shard(state, name, sharded, memory, owners, bucket, dtype, kept=False, shape=None, layout=None):
    """The parameter `sharded`, a DTensor of rows, becomes one of the plan's.

    Args:
        memory: A plain tensor where the DTensor's rows lie: [rows, ...], as many rows as on every other process.
        owners: Where modules hold the parameter, as (module, attribute).
        bucket: The number of its collectives.
        dtype: What it is gathered in.
        kept: Whether the backward takes what the forward gathered, though it gathers others again.
        shape: Of what the processes gather; None: of the DTensor.
        layout: How that is a part of the DTensor: (mesh, placements) over other processes; None: it is the whole.
    """
    spec, count = sharded.data._spec, sharded.data._local_tensor.shape[0]

    def gradient(local):
        return DTensor(local[:count], spec, requires_grad=False)

    dtype = str(dtype).removeprefix("torch.")
    shape = list(sharded.shape if shape is None else shape)
    if layout is not None:
        sharded._thunder_layout = layout
    state.plan.add_sharded(
        name, sharded, memory, shape, dtype, bucket, gradient, _holders(owners), kept, layout is not None
    )
    state.parameters[name] = sharded
    state.sharded[name] = tuple(shape)


def _holders(owners):
    return [(module._parameters, attribute) for module, attribute in owners]


def _original_of(model):
    from ..module import ThunderModule

    return model._original if isinstance(model, ThunderModule) else model


def _original(model):
    module = _original_of(model)
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"[distributed] a torch.nn.Module was expected, got {type(module).__name__}")
    if any(state_of(m) is not None for m in module.modules()):
        raise RuntimeError("[distributed] the module, or a part of it, is distributed already; wrap it once")
    return module


def _attach(model, module, state):
    from ..module import ThunderModule

    object.__setattr__(module, "_thunder_plan", state)
    # What programs for Lightning Thunder ask a module.
    object.__setattr__(module, f"use_{state.kind}", True)
    object.__setattr__(module, "process_group_for_ddp", state.group)
    if isinstance(model, ThunderModule):
        _C.clear_cache(model._compiled)  # of programs for whole parameters
    return model


def unwrap_replicated(model):
    """Takes `ddp` back: the module can be moved, copied and wrapped again. Its compiled programs cannot be called."""
    module = _original_of(model)
    for name in ("_thunder_plan", "use_ddp", "process_group_for_ddp"):
        object.__delattr__(module, name)


def _parameters_of(module):
    """Each parameter once, by its first name."""
    parameters = dict(module.named_parameters())
    for name, p in parameters.items():
        if isinstance(p, DTensor):
            raise RuntimeError(
                f"[distributed] {name} is a DTensor already. Shard what parallelize_module() has made parallel by "
                "PyTorch's fully_shard(), which thunder.jit compiles"
            )
        if not p.dtype.is_floating_point and not p.dtype.is_complex and p.requires_grad:
            raise RuntimeError(f"[distributed] {name} is trainable and of dtype {p.dtype}")
    return parameters


def owners_of(module):
    """For each parameter, where it stands: (module, attribute)."""
    owners = {}
    for m in module.modules():
        for name, p in m._parameters.items():
            if p is not None:
                owners.setdefault(p, []).append((m, name))
    return owners


def _materialise(module, device):
    """Gives memory to what lies on the meta device, and moves the rest."""
    if device is None:
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        meta_device = found or torch.device("cpu")
    else:
        meta_device = torch.device(device)
        for p in [*module.parameters(), *module.buffers()]:
            if not p.is_meta:
                p.data = p.data.to(meta_device)
    for m in module.modules():
        own = [*m.parameters(recurse=False), *m.buffers(recurse=False)]
        if not any(t.is_meta for t in own):
            continue
        m.to_empty(device=meta_device, recurse=False)
        if not hasattr(m, "reset_parameters"):
            raise RuntimeError(
                f"[fsdp] {type(m).__name__} has parameters on the meta device and no reset_parameters(); give them "
                "memory and values before the module is wrapped"
            )
        m.reset_parameters()


def broadcast(tensors, group, source):
    """Writes one process's values into all processes' tensors."""
    with torch.no_grad():
        tensors = [t.detach() for t in tensors]
        for t in tensors:
            whole = t if t.is_contiguous() else t.contiguous()
            with watched(group, "the first values"):
                distributed.broadcast(whole, group=group, group_src=source)
            if whole is not t:
                t.copy_(whole)
