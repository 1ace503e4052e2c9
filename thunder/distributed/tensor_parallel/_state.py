"""State dicts of tensor parallel modules."""

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard

from ..._marks import refusal
from ._layers import sharding_of
from ._regions import gathered, own_part, part_sizes


def whole_of(value, like):
    """All processes' parts of a parameter. Each process of the group calls it."""
    sharding = sharding_of(like)
    return value if sharding is None else gathered(value, sharding.dim, sharding.sizes, sharding.p)


def part_of(value, like):
    """This process's part of a whole tensor, as the parameter `like` is one."""
    sharding = sharding_of(like)
    if sharding is None or value.shape[sharding.dim] != sum(sharding.sizes):
        return value
    return own_part(value, sharding.dim, sharding.sizes, sharding.p)


def as_dtensor(value, like):
    """A part as a DTensor, in the same memory: over the processes that have the others, and of rows of a part (`fsdp`)
    over the processes that have the other rows, too.

    NotImplementedError where none says how it lies: of units, or rows of parts, that divide unevenly, and of processes
    that are no part of one mesh.
    """
    sharding = sharding_of(like)
    if sharding is None:
        return value
    total = sum(sharding.sizes)
    shape = torch.Size([*value.shape[: sharding.dim], total, *value.shape[sharding.dim + 1 :]])
    meta = TensorMeta(shape, torch.empty(shape, device="meta").stride(), value.dtype)
    if sharding.sizes != part_sizes(total, sharding.p.world):
        _refuse("units that divide unevenly")
    local, spec = value, DTensorSpec(_mesh_of(sharding, value), (Shard(sharding.dim),), meta)
    if isinstance(value, DTensor):
        local, spec = value._local_tensor, _spec_of_rows(value, sharding, meta)
    return DTensor(local, spec, requires_grad=False)


def _refuse(what):
    raise refusal(f"[tensor_parallel] a parameter of {what} is no DTensor; use full_state_dict()")


def _mesh_of(sharding, value):
    mesh = sharding.group
    return mesh if isinstance(mesh, DeviceMesh) else DeviceMesh.from_group(mesh, value.device.type)


def mesh_of_rows(value, sharding):
    """The mesh of all processes that have rows of all parts of a parameter."""
    meshes = [value.device_mesh, sharding.group]
    if not isinstance(meshes[1], DeviceMesh) or not all(m.mesh_dim_names for m in meshes):
        _refuse("process groups that are not said to be dimensions of one mesh (mesh=mesh['dp'], mesh['tp'])")
    return DeviceMesh._concatenate(meshes)


def _spec_of_rows(value, sharding, meta):
    *copies, rows = value.placements
    world, total = sharding.p.world, meta.shape[sharding.dim]
    if sharding.dim == 0 and world > 1:
        rows = _StridedShard(0, split_factor=world)
    spec = DTensorSpec(mesh_of_rows(value, sharding), (*copies, rows, Shard(sharding.dim)), meta)
    # PyTorch lets the processes that have rows of the parts share out what is missing from the last part.
    if sharding.dim == 0 and total % world != 0 and not _rows_are(spec, sharding.sizes):
        _refuse(f"{total} rows, which divide into parts of {list(sharding.sizes)} rows, and these unevenly again,")
    return spec


def _rows_are(spec, sizes):
    """Whether PyTorch takes each process to have the rows that it has."""
    *copies, world, parts = spec.mesh.shape
    for i in range(world):
        for j in range(parts):
            first = sum(sizes[:j])
            rows = part_sizes(sizes[j], world)
            place = [*(0 for _ in copies), i, j]
            found = _compute_local_shape_and_global_offset(spec.shape, spec.mesh.shape, place, spec.placements)
            (n, *_), (at, *_) = found
            if n != rows[i] or (n > 0 and at != first + sum(rows[:i])):
                return False
    return True


def from_dtensor(value, like):
    """What `as_dtensor` of a parameter's value was made of; the whole, on each process, of another DTensor."""
    mine = as_dtensor(like.detach(), like)
    if value.device_mesh != mine.device_mesh or value.placements != mine.placements or value.shape != mine.shape:
        return part_of(value.full_tensor(), like)
    local = value._local_tensor
    return DTensor(local, like._spec, requires_grad=False) if isinstance(like, DTensor) else local


@torch.no_grad()
def full_state_dict(model):
    """The state dict of the whole model, on every process. All processes call it together.

    Args:
        model: A module whose parameters are tensor parallel, sharded by `fsdp`, both or neither, compiled or not.

    Returns:
        Plain tensors by name, as the model had them before.
    """
    from ..checkpoint import StateDictOptions, get_model_state_dict

    return get_model_state_dict(model, StateDictOptions(full_state_dict=True))


@torch.no_grad()
def load_full_state_dict(model, state_dict):
    """Copies a state dict of the whole model into this process's parts. All processes call it together.

    Args:
        model: As for `full_state_dict`.
        state_dict: Plain tensors by name.

    Raises:
        RuntimeError: Names are missing or unexpected, or shapes differ.
    """
    from ..checkpoint import load_model_state_dict

    load_model_state_dict(state_dict, model)
