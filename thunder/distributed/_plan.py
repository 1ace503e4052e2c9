"""The communication plan of a wrapped model, made of its parameters alone."""

import collections
import enum
import re
import unittest.mock
import weakref

from torch import distributed

from .. import _C
from ._peers import reachable, share_memory


class FSDPType(enum.Enum):
    """What a process keeps of the parameters between their gathering in the forward and the backward.

    ZERO2: the gathered parameters. ZERO3: nothing; the backward gathers them again.
    """

    ZERO2 = enum.auto()
    ZERO3 = enum.auto()


class FSDPBucketingStrategy(enum.Enum):
    """Which parameters one collective takes.

    NONE: each by itself. LAYER: those of one module. BLOCK: those of one element of the model's lists of modules
    (`h.3`), or of one module outside of lists. AUTO: neighbours, up to 64 MB.
    """

    NONE = enum.auto()
    LAYER = enum.auto()
    BLOCK = enum.auto()
    AUTO = enum.auto()


IN_FLIGHT_MB = 256  # "auto"
AUTO_BYTES = 64 << 20
# Per group, so that processes count alike whatever other groups they are in.
_numbers = collections.Counter()
_reduce_groups = {}
_states = weakref.WeakSet()


def bucket_numbers(names, sizes, strategy, limit=AUTO_BYTES):
    """For each parameter the number of its bucket. Parameters of one bucket are neighbours in the model's order.

    Args:
        names: The parameters' names in the model.
        sizes: Their bytes.
        limit: For AUTO, the most bytes of a bucket of several.
    """
    if strategy is FSDPBucketingStrategy.NONE:
        return list(range(len(names)))
    if strategy is FSDPBucketingStrategy.AUTO:
        return _by_size(sizes, limit)
    number, out, last = -1, [], None
    for name in names:
        key = name.rpartition(".")[0]
        if strategy is FSDPBucketingStrategy.BLOCK:
            block = re.match(r"(.*?\.\d+)\.", name)
            key = block[1] if block else key
        if key != last:
            number, last = number + 1, key
        out.append(number)
    return out


def _by_size(sizes, limit):
    number, filled, out = -1, None, []
    for size in sizes:
        if filled is None or filled + size > limit:
            number, filled = number + 1, 0
        filled += size
        out.append(number)
    return out


def buckets_of_gradients(parameters, bucket_size_in_mb):
    """What `ddp` reduces together: by the parameters' names the numbers of their buckets, in the plan's order."""
    limit = AUTO_BYTES if bucket_size_in_mb == "auto" else int(bucket_size_in_mb * 1024**2)
    # Gradients come in about the reverse order of the parameters.
    names = list(reversed(parameters))
    sizes = [parameters[n].nbytes for n in names]
    return dict(zip(names, bucket_numbers(names, sizes, FSDPBucketingStrategy.AUTO, limit), strict=True))


def buckets_of_shards(parameters, strategy, param_dtype):
    """What `fsdp` gathers together, likewise."""
    sizes = [p.numel() * (param_dtype or p.dtype).itemsize for p in parameters.values()]
    return dict(zip(parameters, bucket_numbers(list(parameters), sizes, strategy), strict=True))


def bytes_in_flight(in_flight_mb):
    """What `fsdp` may gather ahead of its use, and keep of gradients that are being reduced; 0 for one bucket."""
    return int((IN_FLIGHT_MB if in_flight_mb == "auto" else in_flight_mb) * 1024**2)


class DistributedState:
    """What a wrapped module keeps: the plan, the groups, and the parameters by name.

    Attributes:
        group: The processes that share one copy of the parameters.
        reduce_group: The same processes, for collectives of gradients.
        replicas: With hybrid sharding the processes that have the same rows as this one; else None.
        everyone: All of these processes.
    """

    def __init__(
        self,
        group,
        reduce_group,
        *,
        kind,
        regather=False,
        param_dtype=None,
        reduce_dtype=None,
        bytes_in_flight=IN_FLIGHT_MB << 20,
        replicas=None,
        everyone=None,
    ):
        self.group, self.reduce_group = group, reduce_group
        self.replicas, self.everyone = replicas, everyone or group
        self.kind = kind
        self.param_dtype, self.reduce_dtype = param_dtype, reduce_dtype
        self.parameters = {}
        self.sharded = {}  # the shapes of what is gathered, by name
        self.others = {}  # that the module has as well, which are each process's own
        self.regather = regather
        self.reached = None  # the memory of the shards where other processes copy from it
        self.joining = None  # the hook of the join() that calls are in
        self.settled = False  # whether a module that PyTorch had wrapped has run a program
        name = self.everyone.group_name
        _numbers[name] += 1
        self.id = f"{kind} {_numbers[name]} of group {name}"
        self.plan = _C.CommunicationPlan(
            self.id,
            group.group_name,
            reduce_group.group_name,
            group.size(),
            regather,
            None if reduce_dtype is None else str(reduce_dtype).removeprefix("torch."),
            bytes_in_flight,
            *(() if replicas is None else (replicas.group_name, replicas.size())),
        )
        _states.add(self)

    def share_memory(self):
        """Collectives become copies between GPUs where they can; every process has to call this."""
        share_memory(self.group, gathers=True, reduces=self.reduce_group is self.group)
        if self.reduce_group is not self.group:
            share_memory(self.reduce_group, gathers=False, reduces=True)

    def memory_for(self, shards):
        """Memory that other processes reach, for tensors that programs gather: see reachable()."""
        tensors, self.reached = reachable(self.group, shards) or (None, None)
        return tensors

    def check(self, module):
        """RuntimeError if a parameter was replaced or added since the module was wrapped."""
        now = dict(module.named_parameters())
        known = self.parameters | self.others
        for name in [*known, *now]:
            if now.get(name) is not known.get(name):
                raise RuntimeError(
                    f"[distributed] {name} was replaced, added or removed since the module was wrapped. Change the "
                    "module before it is wrapped, or write into the parameter"
                )

    @property
    def synchronizes(self):
        """Whether backwards of calls from now on reduce gradients."""
        return self.plan.synchronizes

    @synchronizes.setter
    def synchronizes(self, on):
        self.plan.synchronizes = on

    def __deepcopy__(self, memo):
        raise TypeError("[distributed] a distributed module cannot be copied; copy it before it is wrapped")

    def __reduce__(self):
        raise TypeError("[distributed] a distributed module cannot be pickled; save its state_dict() instead")


def state_of(module):
    """The DistributedState of a wrapped module, compiled or not; None if it was not wrapped."""
    return getattr(module, "_thunder_plan", None)


def all_states():
    """The DistributedState of each wrapped module that there is."""
    return list(_states)


def group_or_world(group):
    """The group, or the default one. RuntimeError if there is none."""
    if not distributed.is_initialized():
        raise RuntimeError(
            "[distributed] there is no process group: call torch.distributed.init_process_group() before the model is "
            "wrapped, in a program that torchrun starts"
        )
    group = group or distributed.group.WORLD
    if not isinstance(group, distributed.ProcessGroup):
        raise RuntimeError("[distributed] this process is not in the process group that the model is to be wrapped for")
    return group


def group_of_mesh(mesh):
    """The group of all processes of a DeviceMesh."""
    if mesh.ndim == 1:
        return mesh.get_group()
    if mesh.size() == distributed.get_world_size():
        return distributed.group.WORLD
    return mesh._flatten().get_group()


def second_group(group):
    """A group of the same processes with a communicator of its own, for what runs beside the first one's."""
    known = _reduce_groups.get(group.group_name)
    if known is not None and known in distributed.distributed_c10d._world.pg_map:
        return known
    if group.size() == 1:
        return group
    name = f"{group.group_name}.reductions"
    # PyTorch's own name counts the groups that a process is in, of which each may be in others.
    with unittest.mock.patch.object(distributed.distributed_c10d, "_process_group_name", lambda *_, **__: name):
        made = distributed.new_group(distributed.get_process_group_ranks(group), use_local_synchronization=True)
    _reduce_groups[group.group_name] = made
    return made
