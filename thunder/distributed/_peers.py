"""Memory that the processes of a group on one machine share, for collectives by copies between their GPUs."""

import os
import platform
import warnings
import weakref

import torch
from torch import distributed

from .. import _C
from .._watching import watched

# Of each process and group: room for what others send, and for what they take. A chunk of a collective is a quarter.
INBOX_BYTES, OUTBOX_BYTES, OUTBOX_BYTES_OF_GATHERS = 64 << 20, 64 << 20, 32 << 20
MOST_PROCESSES = 16
# Of a sum that all processes get: below it the counters take longer than the bytes.
LEAST_BYTES = 256 << 10
# Of a tensor that others copy from.
ALIGNMENT = 256

# By the group's name: the group, and its memory, which lives as long; None where the backend communicates.
_shared = {}
# By its address, the memory of reachable() that lives.
_reachable = weakref.WeakValueDictionary()


def share_memory(group, *, gathers, reduces):
    """Collectives of the group become copies between GPUs, where all of its processes can; each has to call this.

    Args:
        gathers: Whether parameters are gathered in the group.
        reduces: Whether gradients are reduced in it; with `gathers` also such as every process gets whole.
    """
    if group.size() < 2 or group.size() > MOST_PROCESSES or distributed.get_backend(group) != "nccl":
        return
    name = group.group_name
    if name in _shared and _shared[name][0] is group:
        return
    for other, (known, _) in list(_shared.items()):
        if known not in distributed.distributed_c10d._world.pg_map:  # it was destroyed
            del _shared[other]
    _shared[name] = group, None
    inbox, outbox = INBOX_BYTES if reduces else 0, 0
    if gathers:
        outbox = OUTBOX_BYTES if reduces else OUTBOX_BYTES_OF_GATHERS
    with watched(group, "the agreement on shared memory"):
        if not _all_can(group):
            return
        mapped = _mapped(group, _C.peer_memory_bytes(group.size(), inbox, outbox))
    if mapped is None:
        return
    memory, handle = mapped
    device = memory.device.index
    _C.connect_peers(name, group.rank(), device, inbox, outbox, LEAST_BYTES, handle.buffer_ptrs)
    _shared[name] = group, mapped


def shared_bytes():
    """Of this process's shared memory, which PyTorch's allocator does not count."""
    groups = [mapped[0] for _, mapped in _shared.values() if mapped]
    return sum(memory.nbytes for memory in [*groups, *_reachable.values()])


def reachable(group, tensors):
    """Memory for tensors that the group's processes are to gather: the others copy from where they lie.

    Args:
        tensors: Their shapes and dtypes, the same ones on every process: tensors on the meta device.

    Returns:
        For each an uninitialised tensor on the current GPU, of a storage of its own, and what has to live as long as
        programs gather them; or None where collectives of the group are not copies, or such memory is missing.
    """
    if _shared.get(group.group_name, (None, None))[1] is None:
        return None
    offsets = [0]
    for t in tensors:
        offsets.append(offsets[-1] + -(-t.nbytes // ALIGNMENT) * ALIGNMENT)
    if offsets[-1] == 0:
        return None
    with watched(group, "the agreement on shared memory"):
        mapped = _mapped(group, offsets[-1])
    if mapped is None:
        return None
    memory, handle = mapped
    _C.reach_peers(group.group_name, memory, handle.buffer_ptrs)
    _reachable[memory.data_ptr()] = memory
    return [_like(t, memory[at : at + t.nbytes]) for t, at in zip(tensors, offsets, strict=False)], mapped


def _like(tensor, memory):
    """An uninitialised tensor in the memory. Its storage ends where it ends: what saves it saves no more."""
    like = torch.empty(0, dtype=tensor.dtype, device=memory.device)
    if tensor.nbytes == 0:
        return like.view(tensor.shape)
    return like.set_(torch.from_dlpack(memory).untyped_storage(), 0, tensor.shape)


def _mapped(group, size):
    """Zeros on this GPU, and where each process's lie; None unless every process has them."""
    mapped = None
    try:
        mapped = _allocated(group, size)
    except RuntimeError as e:  # a container may forbid what PyTorch's symmetric memory needs
        warnings.warn(f"[distributed] memory is not shared, the backend communicates: {e}", stacklevel=3)
    return mapped if _everywhere(mapped is not None, group) else None


def _all_can(group):
    """Whether all processes are on this machine, on GPUs of their own that reach each other."""
    device = torch.cuda.current_device()
    why = _C.peers_available(device)
    mine = (platform.node(), _boot(), str(torch.cuda.get_device_properties(device).uuid), why == "")
    all_of_them = [None] * group.size()
    distributed.all_gather_object(all_of_them, mine, group=group)
    same_machine = len({(node, boot) for node, boot, _, _ in all_of_them}) == 1
    own_gpus = len({gpu for _, _, gpu, _ in all_of_them}) == group.size()
    return same_machine and own_gpus and all(able for *_, able in all_of_them) and _linked(group)


def _boot():
    """Another one for each start of a machine: containers may have equal names."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _linked(group):
    """Whether every process's GPU reaches all GPUs that the process sees."""
    device, count = torch.cuda.current_device(), torch.cuda.device_count()
    able = all(other == device or torch.cuda.can_device_access_peer(device, other) for other in range(count))
    return _everywhere(able, group)


def _everywhere(holds, group):
    answer = torch.tensor(int(holds), device="cuda")
    distributed.all_reduce(answer, distributed.ReduceOp.MIN, group=group)
    return bool(answer.item())


def _allocated(group, size):
    from torch.distributed import _symmetric_memory

    # Copies need no multicast object, which is one more thing that a machine may not have.
    os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
    memory = _symmetric_memory.empty(size, dtype=torch.uint8, device=torch.device("cuda", torch.cuda.current_device()))
    memory.zero_()
    torch.cuda.synchronize()
    return memory, _symmetric_memory.rendezvous(memory, group.group_name)
