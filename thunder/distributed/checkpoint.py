"""Checkpoints of distributed modules, over `torch.distributed.checkpoint`.

    save({"model": model, "optimizer": optimizer, "step": 7}, "checkpoint")   # every process writes its rows
    load({"model": model, "optimizer": optimizer, "step": 0}, "checkpoint")   # on any number of processes

Or tensor by tensor: `get_model_state_dict` and `load_model_state_dict`. Files hold whole parameters by name, and
nothing tells how many processes wrote them.
"""

import contextlib
import dataclasses
import os
import shutil
import warnings

import torch
from torch import distributed
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import TensorMeta
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from .._watching import watched
from ._plan import group_of_mesh, state_of
from .tensor_parallel._layers import sharding_of
from .tensor_parallel._state import as_dtensor, from_dtensor, mesh_of_rows, part_of, whole_of


@dataclasses.dataclass
class StateDictOptions:
    """How a state dict represents sharded parameters.

    Args:
        full_state_dict: As whole tensors; else as DTensors, of which each process has its rows.
        cpu_offload: On the CPU.
        rank0_only: On rank 0 alone; asks for `full_state_dict`.
        strict: Loading raises where names are missing or unexpected.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    rank0_only: bool = False
    strict: bool = True

    def __post_init__(self):
        if self.rank0_only and not self.full_state_dict:
            raise ValueError("[checkpoint] rank0_only asks for full_state_dict: without it rank 0 has its rows alone")


def has_fsdp_modules(module):
    """Whether it is a module that, or a part of which, `fsdp` has wrapped."""
    return isinstance(module, torch.nn.Module) and any(
        getattr(state_of(m), "kind", None) == "fsdp" for m in module.modules()
    )


@torch.no_grad()
def get_model_state_dict(module, options=None, rank=None):
    """The module's state dict. All processes of the group call it together if `full_state_dict` is set.

    Args:
        module: A module wrapped by `ddp` or `fsdp`, or by neither, compiled or not.
        options: StateDictOptions; None: the defaults.
        rank: This process's rank, which is 0 on the one that keeps a `rank0_only` state dict; None: its rank in the
            module's group.

    Returns:
        Tensors by name, of the parameters' global shapes: [rows, ...]. Those that are neither gathered nor moved are
        the module's own memory. Empty on ranks other than 0 with `rank0_only`. Tied parameters are one tensor.
    """
    options = options or StateDictOptions()
    keeps = not options.rank0_only or _rank(module, rank) == 0
    made, out = {}, {}
    for name, value in module.state_dict(keep_vars=True).items():
        if id(value) not in made:
            # All take part in gathering, one tensor at a time, so that the others need no memory for the model.
            made[id(value)] = _represent(value, options)
        if not keeps:
            made[id(value)] = None
        out[name] = made[id(value)]
    return out if keeps else {}


def _represent(value, options, parameter=None):
    """A tensor of a state dict, that lies on the processes as `parameter` does; None: it is one."""
    if not isinstance(value, torch.Tensor):
        return value
    parameter, value = value if parameter is None else parameter, value.detach()
    if options.full_state_dict:
        group = _group_in(value)
        with watched(group, "the others' parts") if group is not None else contextlib.nullcontext():
            value = whole_of(value.full_tensor() if isinstance(value, DTensor) else value, parameter)
    else:
        value = as_dtensor(value, parameter)
    return value.cpu() if options.cpu_offload else value


@torch.no_grad()
def load_model_state_dict(state_dict, module, options=None, rank=None):
    """Copies a state dict into the module's memory. All processes of the group call it together.

    Args:
        state_dict: Tensors by name, whole ones or DTensors, whatever `full_state_dict` is. With `rank0_only` the one of
            rank 0 counts alone, of which the others receive their rows one tensor at a time.
        module: A module wrapped by `ddp` or `fsdp`, or by neither, compiled or not.
        options: StateDictOptions; None: the defaults.
        rank: This process's rank; None: its rank in the module's group.

    Raises:
        RuntimeError: Names are missing or unexpected (not without `strict`), or shapes differ; with `rank0_only` on
            every process.
    """
    options = options or StateDictOptions()
    own = module.state_dict(keep_vars=True)
    group = _group_of(module)
    if options.rank0_only and group is not None and group.size() > 1:
        values = _received(state_dict, own, group)
    else:
        values = ((name, value) for name, value in state_dict.items())
    # In place, for programs check that parameters did not move.
    module.load_state_dict({name: _like(value, own.get(name)) for name, value in values}, strict=options.strict)


def _received(state_dict, own, group):
    """The name and value of each item of rank 0's state dict."""
    first = group.rank() == 0
    items = []
    if first:
        for name, value in state_dict.items():
            tensor = isinstance(value, torch.Tensor)
            items.append((name, (tuple(value.shape), value.dtype) if tensor else None, None if tensor else value))
    box = [items]
    distributed.broadcast_object_list(box, group=group, group_src=0)
    for name, tensor, value in box[0]:
        like = own.get(name)
        if tensor is None or not isinstance(like, torch.Tensor) or tuple(like.shape) != tensor[0]:
            # load_state_dict raises on every process what it raises on rank 0.
            yield name, value if tensor is None else torch.empty(tensor[0], dtype=tensor[1], device="meta")
            continue
        if first:
            whole = state_dict[name].detach().to(like.device).contiguous()
        else:
            whole = torch.empty(tensor[0], dtype=tensor[1], device=like.device)
        if whole.numel() > 0:
            distributed.broadcast(whole, group=group, group_src=0)
        yield name, whole


def _like(value, own):
    """A value of a state dict, distributed as the module's own is."""
    if not isinstance(value, torch.Tensor) or not isinstance(own, torch.Tensor):
        return value
    if sharding_of(own) is not None:
        value = from_dtensor(value, own) if isinstance(value, DTensor) else part_of(value, own)
    if value.shape != own.shape:
        return value
    if isinstance(value, DTensor):
        if isinstance(own, DTensor) and value.device_mesh == own.device_mesh:
            return value.redistribute(placements=own.placements)
        value = value.full_tensor()
    if not isinstance(own, DTensor):
        return value
    return _divided(value, own)


def _divided(value, own):
    """A whole tensor as a DTensor is one. A copy: a view would keep the whole."""
    sizes, first = compute_local_shape_and_global_offset(own.shape, own.device_mesh, own.placements)
    part = value[tuple(slice(i, i + n) for i, n in zip(first, sizes, strict=True))].to(own.device)
    part = part.clone(memory_format=torch.contiguous_format)
    spec = dataclasses.replace(own._spec, tensor_meta=TensorMeta(own.shape, own.stride(), part.dtype))
    return DTensor(part, spec, requires_grad=False)


@torch.no_grad()
def get_optimizer_state_dict(optimizer, options=None, rank=None):
    """The optimizer's state dict. All processes of the group call it together if `full_state_dict` is set.

    Args:
        optimizer: An optimizer of a module's parameters, distributed or not.
        options: StateDictOptions; None: the defaults.
        rank: This process's rank; None: its rank in the parameters' group.

    Returns:
        As `optimizer.state_dict()`, with state of sharded parameters as whole tensors or as DTensors. Empty on ranks
        other than 0 with `rank0_only`.
    """
    options = options or StateDictOptions()
    keeps = not options.rank0_only or _rank(optimizer, rank) == 0

    tree, parameters = optimizer.state_dict(), _parameters_of(optimizer)
    state = {
        number: {k: _represent(v, options, parameters[number] if _is_like(v, parameters[number]) else None)
                 for k, v in fields.items()}
        for number, fields in tree["state"].items()
    }
    return {**tree, "state": state} if keeps else {}


def load_optimizer_state_dict(state_dict, optimizer):
    """Copies a state dict with whole tensors or DTensors into the optimizer, each process its rows.

    Raises:
        ValueError: It is of an optimizer with other parameter groups.
    """
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    numbers = [n for group in state_dict["param_groups"] for n in group["params"]]
    own = dict(zip(numbers, parameters, strict=False))  # load_state_dict says what is wrong with other numbers
    state = {
        number: {field: _like(value, own.get(number)) for field, value in fields.items()}
        for number, fields in state_dict["state"].items()
    }
    optimizer.load_state_dict({**state_dict, "state": state})


def save(state, path, *, process_group=None):
    """Writes a checkpoint. All processes of the group call it together, each with its own part.

    Args:
        state: Values by name: modules, optimizers, tensors, DTensors, dicts and lists of such, and what can be pickled.
            Whole tensors are taken from one of the processes.
        path: A directory, which all processes reach. An earlier checkpoint there stands until the new one is complete:
            parts are written beside it, to `{path}.partial`.
        process_group: The processes; None: those of the first distributed module or DTensor in `state`, else all.
    """
    group = process_group or _group_in(state)
    first = not distributed.is_initialized() or distributed.get_rank(group) == 0
    path = os.path.abspath(path)
    if first:
        shutil.rmtree(f"{path}.partial", ignore_errors=True)  # of a run that crashed
    _from_first(group, None, f"the start of {path}")  # before others make that directory
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*assuming the intent is to save in a single process")
        tree = {name: _tree(value) for name, value in state.items()}
        with watched(group, f"the others' parts of {path}"):
            dcp.save(tree, checkpoint_id=f"{path}.partial", process_group=group)
    error = _from_first(group, _replace(f"{path}.partial", path) if first else None, f"the end of {path}")
    if error is not None:
        raise error


def _from_first(group, value, what):
    """The first process's `value`, for which the others wait."""
    if not distributed.is_initialized():
        return value
    box = [value]
    with watched(group, what):
        distributed.broadcast_object_list(box, group=group, group_src=0)
    return box[0]


def _replace(new, path):
    """Makes `new` the directory `path`; returns what went wrong, for all processes to raise."""
    try:
        if os.path.exists(path):
            # Directories cannot change places in one step: the old one goes first, while the new one is complete.
            shutil.rmtree(path)
        os.rename(new, path)
    except OSError as e:
        return e
    return None


def load(state, path, *, process_group=None):
    """Reads a checkpoint into `state`, in place. All processes of the group call it together.

    Args:
        state: Values by name, of which each must be in the checkpoint. Modules, optimizers, tensors and DTensors are
            written to, whatever processes the checkpoint is from; other values of dicts are replaced.
        path: The directory given to `save`.
        process_group: The processes; None: those of the first distributed module or DTensor in `state`, else all.

    Raises:
        FileNotFoundError: There is no complete checkpoint.
        torch.distributed.checkpoint.api.CheckpointException: Something is not in it, or has another shape.
    """
    try:
        metadata = dcp.FileSystemReader(path).read_metadata()
    except FileNotFoundError as e:
        raise FileNotFoundError(f"[checkpoint] {path} holds no complete checkpoint: {e}") from e
    tree = {
        name: _empty_state(name, value, metadata) if isinstance(value, torch.optim.Optimizer) else _tree(value)
        for name, value in state.items()
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*assuming the intent is to load in a single process")
        group = process_group or _group_in(state)
        with watched(group, f"the others to read {path}"):
            dcp.load(tree, checkpoint_id=path, process_group=group)
    for name, value in state.items():
        if isinstance(value, torch.nn.Module):
            load_model_state_dict(tree[name], value)  # for hooks, and for state that is no tensor
        elif isinstance(value, torch.optim.Optimizer):
            parameters = _parameters_of(value)
            numbered = {int(n): _local(fields, parameters[int(n)]) for n, fields in tree[name]["state"].items()}
            value.load_state_dict({**tree[name], "state": numbered})
        else:
            state[name] = tree[name]


def _tree(value):
    if isinstance(value, torch.nn.Module):
        return get_model_state_dict(value)
    if isinstance(value, torch.optim.Optimizer):
        tree, parameters = value.state_dict(), _parameters_of(value)
        # PyTorch writes and looks for keys as text.
        return {**tree, "state": {str(n): _parts_of(fields, parameters[n]) for n, fields in tree["state"].items()}}
    return value


def _parameters_of(optimizer):
    """An optimizer's parameters by their numbers in its state dict."""
    parameters = [p for g in optimizer.param_groups for p in g["params"]]
    return dict(enumerate({id(p): p for p in parameters}.values()))


def _parts_of(fields, p):
    """What an optimizer keeps of a parameter, its tensors being parts of whole ones where the parameter is."""
    return {k: as_dtensor(v, p) if _is_like(v, p) else v for k, v in fields.items()}


def _is_like(value, p):
    return isinstance(value, torch.Tensor) and p.dim() > 0 and value.shape == p.shape


def _local(fields, p):
    """What an optimizer keeps of a tensor parallel parameter, as the parameter is."""
    if sharding_of(p) is None:
        return fields
    return {k: from_dtensor(v, p) if isinstance(v, DTensor) and v.dim() > 0 else v for k, v in fields.items()}


def _empty_state(name, optimizer, metadata):
    """A state dict of the optimizer with room for what the checkpoint has, which a new optimizer has not."""
    tree = optimizer.state_dict()
    parameters = {str(n): p for n, p in _parameters_of(optimizer).items()}
    state = {}
    for key, path in (metadata.planner_data or {}).items():
        if len(path) != 4 or path[:2] != (name, "state"):
            continue
        _, _, number, field = path
        stored, p = metadata.state_dict_metadata[key], parameters.get(number)
        if p is None:
            raise RuntimeError(f"[checkpoint] {name} has no parameter {number}, of which the checkpoint has {field}")
        if not isinstance(stored, TensorStorageMetadata):
            room = None
        elif p.dim() > 0 and stored.size == as_dtensor(p.detach(), p).shape:
            room = as_dtensor(torch.zeros_like(p, dtype=stored.properties.dtype, requires_grad=False), p)
        else:
            room = torch.zeros(stored.size, dtype=stored.properties.dtype, device="cpu")
        state.setdefault(number, {})[field] = room
    return {**tree, "state": state}


def _group_of(module):
    return next((state_of(m).everyone for m in module.modules() if state_of(m) is not None), None)


def _rank(value, rank):
    if rank is not None:
        return rank
    group = _group_in(value)
    if group is not None:
        return group.rank()
    return distributed.get_rank() if distributed.is_initialized() else 0


def _group_of_parameters(parameters, wrapped):
    """The processes that have all of a model's parameters; `wrapped`: those that data parallelism is over, or None."""
    parallel = next((p for p in parameters if sharding_of(p) is not None), None)
    if parallel is None:
        # Those of the largest mesh: a part of the parameters may be sharded by rows alone.
        meshes = [p.device_mesh for p in parameters if isinstance(p, DTensor)]
        largest = max(meshes, key=lambda mesh: mesh.ndim, default=None)
        return wrapped if largest is None or (wrapped is not None and largest.ndim == 1) else group_of_mesh(largest)
    sharding = sharding_of(parallel)
    if isinstance(parallel, DTensor):
        with contextlib.suppress(NotImplementedError):
            return group_of_mesh(mesh_of_rows(parallel, sharding))
    elif wrapped is None:
        return sharding.process_group()
    # Nobody knows of a smaller group that has all of the parameters.
    return distributed.group.WORLD


def _group_in(value):
    if isinstance(value, torch.nn.Module):
        return _group_of_parameters(list(value.parameters()), _group_of(value))
    if isinstance(value, DTensor):
        return group_of_mesh(value.device_mesh)
    if isinstance(value, torch.optim.Optimizer):
        return _group_of_parameters([p for g in value.param_groups for p in g["params"]], None)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return None
    return next((g for g in map(_group_in, value) if g is not None), None)
