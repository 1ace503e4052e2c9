"""Modules whose parameters lie on several processes.

A module keeps its attributes, hooks and the names in its state dict; its class becomes one of those here, which runs on
this process's part of the parameters.
"""

import dataclasses

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.nn import functional as F

from ..._marks import refusal
from ._regions import (
    Processes,
    copy_to_group,
    exchange,
    gather_from_group,
    gather_sequence,
    gathered,
    own_part,
    part_sizes,
    processes_of,
    reduce_from_group,
    scatter_sequence,
    scatter_to_group,
)


@dataclasses.dataclass(frozen=True)
class Sharding:
    """How a parameter lies on the processes: along `dim`, `sizes` of all of them."""

    p: Processes
    group: object  # the ProcessGroup, or the DeviceMesh
    dim: int
    sizes: tuple

    def process_group(self):
        return self.group.get_group() if isinstance(self.group, DeviceMesh) else self.group


def other_parts_of(parameter, planned=False):
    """The Processes that have a tensor parallel parameter together; None of one that each has whole.

    Args:
        planned: Whether a plan shards it by rows, or what of it is a part of a DTensor of PyTorch's.
    """
    if sharding_of(parameter) is not None:
        return sharding_of(parameter).p
    layout = getattr(parameter, "_thunder_layout", None)
    if layout is None and isinstance(parameter, DTensor) and not planned:
        layout = parameter.device_mesh, parameter.placements
    if layout is None or layout[0].ndim != 1 or isinstance(layout[1][0], Replicate):
        return None
    return processes_of(layout[0])


@dataclasses.dataclass(frozen=True)
class _Layouts:
    p: Processes
    input: object  # Replicate(), or Shard(dim)
    output: object
    in_sizes: tuple  # features of all processes, where they are sharded
    out_sizes: tuple


def shardings_of(module):
    """The Sharding of each of a module's own parameters that is sharded, by attribute."""
    return module.__dict__.get("_thunder_shardings", {})


def sharding_of(parameter):
    """The Sharding of a parameter; None of one that each process has whole."""
    return getattr(parameter, "_thunder_sharding", None)


def _dim(layout, x):
    return layout.dim % x.dim()


def _is_features(layout, x):
    return isinstance(layout, Shard) and _dim(layout, x) == x.dim() - 1


def _replicated_input(x, t):
    """For parameters that differ: what all have."""
    if isinstance(t.input, Replicate):
        return copy_to_group(x, t.p)
    return gather_sequence(x, t.input.dim, t.p, t.in_sizes if _is_features(t.input, x) else None)


def _from_features(y, t):
    """Features that are sharded, in the layout that is asked for."""
    if isinstance(t.output, Replicate):
        return gather_from_group(y, -1, t.p, t.out_sizes)
    return exchange(y, -1, t.output.dim, t.p, sizes=t.out_sizes)


def _from_partial(y, t):
    if isinstance(t.output, Replicate):
        return reduce_from_group(y, t.p)
    return scatter_sequence(y, t.output.dim, t.p, t.out_sizes if _is_features(t.output, y) else None)


class ColumnParallelLinear(nn.Linear):
    """Each process computes a part of the output features: rows of the weight, and of the bias."""

    def forward(self, x):
        t = self._thunder_layouts
        return _from_features(F.linear(_replicated_input(x, t), self.weight, self.bias), t)


class RowParallelLinear(nn.Linear):
    """Each process reads a part of the input features: columns of the weight. The bias is whole."""

    def forward(self, x):
        t = self._thunder_layouts
        if isinstance(t.input, Replicate):
            x = scatter_to_group(x, -1, t.p, t.in_sizes)
        else:
            x = exchange(x, t.input.dim, -1, t.p, new_sizes=t.in_sizes)
        y = _from_partial(F.linear(x, self.weight), t)
        if self.bias is None:
            return y
        if isinstance(t.output, Replicate):
            return y + self.bias
        if _is_features(t.output, y):
            return y + scatter_to_group(self.bias, 0, t.p, t.out_sizes)
        return y + copy_to_group(self.bias, t.p)


class ColumnParallelEmbedding(nn.Embedding):
    """Each process has a part of each vector."""

    def forward(self, indices):
        t = self._thunder_layouts
        y = F.embedding(_all_indices(indices, t), self.weight, self.padding_idx)
        return _from_features(y, t)


class VocabularyParallelEmbedding(nn.Embedding):
    """Each process has the vectors of a part of the vocabulary."""

    def forward(self, indices):
        t = self._thunder_layouts
        sizes, rank = t.in_sizes, t.p.rank
        indices = _all_indices(indices, t)
        return _from_partial(embed_part(indices, self.weight, sum(sizes[:rank]), sizes[rank], self.padding_idx), t)


def embed_part(indices, weight, first, count, padding_idx):
    """The vectors of `count` words of the vocabulary from the `first` one on, and zeros for the others."""
    if count == 0:
        return weight.new_zeros((*indices.shape, weight.shape[1])) + weight.sum()
    own = (indices >= first) & (indices < first + count)
    index = (indices - first).masked_fill(~own, 0)
    padding = None if padding_idx is None else padding_idx - first
    if padding is not None and not 0 <= padding < count:
        padding = None
    return F.embedding(index, weight, padding).masked_fill(~own.unsqueeze(-1), 0.0)


def _all_indices(indices, t):
    if isinstance(t.input, Replicate):
        return indices
    return gathered(indices, _dim(t.input, indices), (indices.shape[t.input.dim],) * t.p.world, t.p)


class SequenceParallelModule:
    """Runs on a part of the sequence, with whole parameters: their gradients are summed over the processes."""

    def forward(self, *args, **kwargs):
        p, plain = self._thunder_layouts.p, self._thunder_plain_class
        # The module itself is not written to: it may run in several threads.
        part = object.__new__(plain)
        part.__dict__.update(self.__dict__)
        own = self._parameters
        part.__dict__["_parameters"] = {k: None if v is None else copy_to_group(v, p) for k, v in own.items()}
        return plain.forward(part, *args, **kwargs)


# ---- making them ----------------------------------------------------------------------------------------------------

_LINEAR = {"column": ColumnParallelLinear, "row": RowParallelLinear}
_EMBEDDING = {"column": ColumnParallelEmbedding, "row": VocabularyParallelEmbedding}


def _refuse(name, why):
    raise refusal(f"[tensor_parallel] {name}: {why}")


def _check_embedding(module, name):
    for option in ("max_norm", "scale_grad_by_freq", "sparse"):
        if getattr(module, option):
            _refuse(name, f"an embedding with {option}={getattr(module, option)!r} cannot be sharded")


def make_parallel(module, name, kind, group, p, *, input=None, output=None, unit=1):
    """Shards a linear or embedding module's parameters, in place. `kind`: "column" or "row".

    Args:
        input, output: Replicate() or Shard(dim) of what the module takes and gives; None: what the kind needs or makes
            without communication.
        unit: The features that stay together.
    """
    if isinstance(module, nn.Linear) and type(module).forward is nn.Linear.forward:
        column = kind == "column"
        features = module.out_features if column else module.in_features
        sizes = part_sizes(features, p.world, unit)
        in_sizes = part_sizes(module.in_features, p.world) if column else sizes
        out_sizes = sizes if column else part_sizes(module.out_features, p.world)
        dims = {"weight": 0, "bias": 0} if column else {"weight": 1}
        default = (Replicate(), Shard(-1)) if column else (Shard(-1), Replicate())
        cls = _LINEAR[kind]
    elif isinstance(module, nn.Embedding) and type(module).forward is nn.Embedding.forward:
        _check_embedding(module, name)
        column = kind == "column"
        sizes = part_sizes(module.embedding_dim if column else module.num_embeddings, p.world, unit)
        in_sizes = sizes
        out_sizes = sizes if column else part_sizes(module.embedding_dim, p.world)
        dims = {"weight": 1 if column else 0}
        default = (Replicate(), Shard(-1) if column else Replicate())
        cls = _EMBEDDING[kind]
    else:
        _refuse(name, f"a Linear or an Embedding was expected, got {type(module).__name__}")
    layouts = _Layouts(p, input or default[0], output or default[1], in_sizes, out_sizes)
    _check_layouts(name, layouts)
    module._thunder_shardings = {}
    for attribute, dim in dims.items():
        if getattr(module, attribute) is not None:
            _shard(module, name, attribute, Sharding(p, group, dim, sizes))
    module._thunder_layouts = layouts
    module.__class__ = cls


def _check_layouts(name, layouts):
    for layout in (layouts.input, layouts.output):
        if type(layout) not in (Replicate, Shard):
            _refuse(name, f"Replicate() or Shard(dim) was expected as a layout, got {layout}")


def _shard(module, name, attribute, sharding):
    whole = getattr(module, attribute)
    if whole.is_meta:
        raise RuntimeError(f"[tensor_parallel] {name}.{attribute} is on the meta device; give it memory first")
    # Of a weight that several modules have, they have the same part.
    part = whole.__dict__.get("_thunder_part")
    if part is not None and sharding_of(part) != sharding:
        raise ValueError(
            f"[tensor_parallel] {name}.{attribute} is shared with a module that shards it in another way"
        )
    if part is None:
        data = own_part(whole.detach(), sharding.dim, sharding.sizes, sharding.p)
        part = nn.Parameter(data, whole.requires_grad)
        part.__dict__.update(whole.__dict__)
        part._thunder_sharding = sharding
        whole._thunder_part = part
    setattr(module, attribute, part)
    module._thunder_shardings[attribute] = sharding


def make_sequence_parallel(module, p):
    """Makes a module run on a part of the sequence, in place."""
    plain = type(module)
    module._thunder_layouts = _Layouts(p, None, None, (), ())
    module._thunder_plain_class = plain
    module.__class__ = type(f"SequenceParallel{plain.__name__}", (SequenceParallelModule, plain), {})
