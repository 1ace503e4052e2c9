"""State dicts of tensor parallel modules."""

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

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
    """A part as a DTensor, in the same memory.

    NotImplementedError where none says how it lies: of units that divide unevenly, and of rows of a part.
    """
    sharding = sharding_of(like)
    if sharding is None:
        return value
    total = sum(sharding.sizes)
    if isinstance(value, DTensor) or sharding.sizes != part_sizes(total, sharding.p.world):
        raise NotImplementedError(
            "[tensor_parallel] a parameter that lies so on the processes is no DTensor; use full_state_dict()"
        )
    mesh = sharding.group
    if not isinstance(mesh, DeviceMesh):
        mesh = DeviceMesh.from_group(mesh, value.device.type)
    shape = torch.Size([*value.shape[: sharding.dim], total, *value.shape[sharding.dim + 1 :]])
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(value, mesh, [Shard(sharding.dim)], run_check=False, shape=shape, stride=stride)


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
