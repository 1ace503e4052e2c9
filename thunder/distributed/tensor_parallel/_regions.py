"""The building blocks of tensor parallelism: what a tensor of a group becomes, and what its gradient becomes.

A tensor is replicated (each process has the whole), sharded (each has a part along a dimension), or partial (the sum
over the processes is the whole). Each function takes one of these to another, and its backward takes the gradient back:

    copy_to_group       replicated -> replicated    the gradients of the processes are summed
    count_once          replicated -> replicated    the first process's gradient, which is then summed, stays
    reduce_from_group   partial -> replicated       the gradient stays
    scatter_to_group    replicated -> sharded       the gradient is gathered
    gather_from_group   sharded -> replicated       the gradient's part
    gather_sequence     sharded -> replicated       the gradients are summed, each process gets its part
    scatter_sequence    partial -> sharded          the gradient is gathered
    exchange            sharded -> sharded          the other way round

gather_from_group is for what all processes go on with alike, gather_sequence for what each reads with parameters of its
own. They are functional collectives, in compiled functions and in eager.
"""

import dataclasses

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh

from ..._marks import ours


@dataclasses.dataclass(frozen=True)
class Processes:
    """A process group as programs know it."""

    name: str
    world: int
    rank: int  # of this process, in the group


def processes_of(group):
    """The Processes of a ProcessGroup or of a DeviceMesh of one dimension."""
    if isinstance(group, Processes):
        return group
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise ours(ValueError(
                f"[tensor_parallel] a mesh of 1 dimension was expected, got {group}; take one of them: mesh['tp']"
            ))
        group = group.get_group()
    if not isinstance(group, distributed.ProcessGroup):
        raise ours(TypeError(f"[tensor_parallel] a ProcessGroup or a DeviceMesh was expected, got {group!r}"))
    return Processes(group.group_name, group.size(), group.rank())


def part_sizes(n, world, unit=1):
    """How much of `n` each process has, in multiples of `unit`: divided as by torch.chunk(), the last may have less."""
    if n % unit != 0:
        raise ours(ValueError(f"[tensor_parallel] {n} features are no multiple of the unit {unit}"))
    most = -(-n // unit // world) * unit
    return tuple(max(0, min(most, n - i * most)) for i in range(world))


def _arrived(started):
    return torch.ops._c10d_functional.wait_tensor(started)


def reduced(x, op, p):
    """The reduction over the processes, without a gradient."""
    return _arrived(torch.ops._c10d_functional.all_reduce(x.contiguous(), op, p.name))


def own_part(x, dim, sizes, p):
    """A copy: a view would keep the whole."""
    part = x.narrow(dim, sum(sizes[: p.rank]), sizes[p.rank])
    return part.clone(memory_format=torch.contiguous_format)


def _padded(x, dim, n):
    """With `n` along `dim`."""
    if x.shape[dim] == n:
        return x
    shape = list(x.shape)
    shape[dim] = n - x.shape[dim]
    return torch.cat([x, x.new_zeros(shape)], dim)


# Collectives join tensors along their first dimension. Parts are sent as they lie, and lie one behind the other along
# another dimension by a copy that reads and writes whole rows: a tensor whose last dimension came first would be read
# and written with large steps.


def gathered(x, dim, sizes, p):
    """The parts of all processes, one behind the other along `dim`, without a gradient."""
    part = _padded(x, dim, max(sizes)).contiguous()
    whole = _arrived(torch.ops._c10d_functional.all_gather_into_tensor(part, p.world, p.name))
    parts = whole.view(p.world, *part.shape)
    if min(sizes) < max(sizes):
        return torch.cat([parts[i].narrow(dim, 0, n) for i, n in enumerate(sizes)], dim)
    return parts.movedim(0, dim).flatten(dim, dim + 1).contiguous()


def reduced_part(x, dim, sizes, p):
    """This process's part, along `dim`, of the sum over the processes, without a gradient."""
    if min(sizes) < max(sizes):
        x = torch.cat([_padded(part, dim, max(sizes)) for part in x.split(sizes, dim)], dim)
    parts = x.unflatten(dim, (p.world, max(sizes))).movedim(dim, 0).flatten(0, 1).contiguous()
    part = _arrived(torch.ops._c10d_functional.reduce_scatter_tensor(parts, "sum", p.world, p.name))
    return part.narrow(dim, 0, sizes[p.rank]).contiguous()


def exchanged(x, dim, sizes, new_dim, new_sizes, p):
    """Sharded along `new_dim` instead of `dim`, without a gradient."""
    sent = [part.contiguous() for part in x.split(new_sizes, new_dim)]
    shapes = []
    for n in sizes:
        shape = list(x.shape)
        shape[dim], shape[new_dim] = n, new_sizes[p.rank]
        shapes.append(shape)
    counts = [torch.Size(s).numel() for s in shapes]
    flat = torch.cat([part.flatten() for part in sent])
    got = _arrived(
        torch.ops._c10d_functional.all_to_all_single(flat, counts, [part.numel() for part in sent], p.name)
    )
    return torch.cat([part.view(s) for part, s in zip(got.split(counts), shapes, strict=True)], dim)


class _Region(torch.autograd.Function):
    """`there(x)`, whose gradient is `back(gradient)`."""

    @staticmethod
    def forward(ctx, x, there, back):
        ctx.back = back
        return there(x)

    @staticmethod
    def backward(ctx, g):
        return ctx.back(g), None, None


def _region(x, p, there, back):
    return x if p.world == 1 else _Region.apply(x, there, back)


def copy_to_group(x, group):
    """The tensor itself, which each process reads with parameters of its own: its gradient is the sum of theirs."""
    p = processes_of(group)
    return _region(x, p, lambda x: x.view_as(x), lambda g: reduced(g, "sum", p))


def count_once(x, group):
    """The tensor itself, which all go on with alike, though the sum of the processes' gradients becomes its own."""
    p = processes_of(group)
    return _region(x, p, lambda x: x.view_as(x), lambda g: g if p.rank == 0 else torch.zeros_like(g))


def reduce_from_group(x, group):
    """The sum of the processes' tensors, which they go on with alike."""
    p = processes_of(group)
    return _region(x, p, lambda x: reduced(x, "sum", p), lambda g: g)


def _whole_sizes(x, dim, sizes, p):
    """Of a tensor that all have."""
    if sizes is None:
        n = x.shape[dim]
        if n % p.world != 0:
            raise ours(ValueError(
                f"[tensor_parallel] dimension {dim} of a tensor of shape {tuple(x.shape)} is no multiple of the "
                f"{p.world} processes"
            ))
        sizes = (n // p.world,) * p.world
    return tuple(sizes)


def _part_sizes_of(x, dim, sizes, p):
    """Of a tensor of which each has a part."""
    return tuple(sizes) if sizes is not None else (x.shape[dim],) * p.world


def _place(x, dim):
    return dim % x.dim()


def scatter_to_group(x, dim, group, sizes=None):
    """This process's part, along `dim`, of what all processes have. `sizes`: of all parts; None: equal ones."""
    p, dim = processes_of(group), _place(x, dim)
    how = dim, _whole_sizes(x, dim, sizes, p), p
    return _region(x, p, lambda x: own_part(x, *how), lambda g: gathered(g, *how))


def gather_from_group(x, dim, group, sizes=None):
    """All processes' parts along `dim`, which they go on with alike. `sizes`: of all parts; None: equal ones."""
    p, dim = processes_of(group), _place(x, dim)
    how = dim, _part_sizes_of(x, dim, sizes, p), p
    return _region(x, p, lambda x: gathered(x, *how), lambda g: own_part(g, *how))


def gather_sequence(x, dim, group, sizes=None):
    """All processes' parts along `dim`, which each reads with parameters of its own."""
    p, dim = processes_of(group), _place(x, dim)
    how = dim, _part_sizes_of(x, dim, sizes, p), p
    return _region(x, p, lambda x: gathered(x, *how), lambda g: reduced_part(g, *how))


def scatter_sequence(x, dim, group, sizes=None):
    """This process's part, along `dim`, of the sum of the processes' tensors."""
    p, dim = processes_of(group), _place(x, dim)
    how = dim, _whole_sizes(x, dim, sizes, p), p
    return _region(x, p, lambda x: reduced_part(x, *how), lambda g: gathered(g, *how))


def exchange(x, dim, new_dim, group, sizes=None, new_sizes=None):
    """Sharded along `new_dim` instead of `dim`."""
    p, dim, new_dim = processes_of(group), _place(x, dim), _place(x, new_dim)
    if dim == new_dim:
        return x
    old = dim, _part_sizes_of(x, dim, sizes, p)
    new = new_dim, _whole_sizes(x, new_dim, new_sizes, p)
    return _region(x, p, lambda x: exchanged(x, *old, *new, p), lambda g: exchanged(g, *new, *old, p))
