"""Calls whose result is a sum over the processes, and those that are told sizes of the whole."""

import math

import torch
from torch.distributed.tensor import DTensor, Partial, Shard
from torch.nn import functional as F

from ..tensor_parallel._layers import embed_part
from ..tensor_parallel._regions import processes_of
from ._calls import _recording, rules
from ._part import Part, leave


def _rule(*functions):
    """For a function of the call's arguments, DTensors among them being Parts: the result, or None where each process
    makes the call on its parts."""

    def register(rule):
        for function in functions:
            rules[function] = rule
        return rule

    return register


for _method in (DTensor.to_local, DTensor.redistribute, DTensor.full_tensor):
    rules[_method] = getattr(Part, _method.__name__)


@_rule(DTensor.from_local)
def _from_local(*args, **kwargs):
    leave("DTensor.from_local() of a DTensor")


def _dim(value):
    """Along which dimension it is sharded; None of what is not."""
    return value._placement.dim if type(value) is Part and value._sizes is not None else None


@_rule(F.linear)
def _linear(input, weight, bias=None):
    if type(input) is not Part or type(weight) is not Part or weight._shape[-1:] != input._shape[-1:]:
        return leave(f"linear() of an input of shape {tuple(input.shape)} and a weight of shape {tuple(weight.shape)}")
    if _dim(input) != len(input._shape) - 1 or _dim(weight) != 1:
        return None
    if input._sizes != weight._sizes or (bias is not None and _dim(bias) is not None):
        leave("linear() of features that are divided in several ways")
    with _recording():
        y = F.linear(input.local(), weight.local())
    return Part(y, input._mesh, Partial(), (*input._shape[:-1], weight._shape[0]), bias=bias)


@_rule(F.embedding)
def _embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    if type(input) is not Part or type(weight) is not Part:
        return leave("embedding() of indices that are no DTensor, or of a weight that is none")
    if _dim(weight) != 0:
        return None
    if _dim(input) is not None or max_norm is not None or scale_grad_by_freq or sparse:
        leave("embedding() of a divided vocabulary with divided indices, max_norm, scale_grad_by_freq or sparse")
    p, sizes = processes_of(weight._mesh), weight._sizes
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight._shape[0]
    with _recording():
        y = embed_part(input.local(), weight.local(), sum(sizes[: p.rank]), sizes[p.rank], padding_idx)
    return Part(y, weight._mesh, Partial(), (*input._shape, weight._shape[1]))


# ---- shapes ---------------------------------------------------------------------------------------------------------


def _reshaped(x, shape):
    """Sizes are those of the whole: of what is sharded this process has its part of the dimension that it becomes."""
    dim = _dim(x)
    if dim is None:
        return None
    before, shape = x._shape, list(shape)
    if not all(type(n) is int for n in (*before, *shape)):
        return leave("a DTensor that is sharded is given another shape, with sizes that vary")
    if shape.count(-1) == 1:
        shape[shape.index(-1)] = math.prod(before) // max(1, -math.prod(shape))
    world, outer = len(x._sizes), math.prod(before[:dim])
    places = [i for i, n in enumerate(shape) if math.prod(shape[:i]) == outer and n > 1 and n % world == 0]
    if math.prod(shape) != math.prod(before) or before[dim] % world or not places:
        return leave(f"a DTensor of shape {before} that is sharded along dimension {dim} is given the shape {shape}")
    new = places[-1]
    local = list(shape)
    local[new] //= world
    with _recording():
        y = x.local().reshape(local)
    return Part(y, x._mesh, Shard(new), shape, (local[new],) * world)


@_rule(torch.Tensor.view, torch.Tensor.reshape)
def _view(x, *shape, **kwargs):
    if kwargs or (len(shape) == 1 and isinstance(shape[0], torch.dtype)):
        return leave("view() of a DTensor in another dtype") if _dim(x) is not None else None
    return _reshaped(x, shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)


@_rule(torch.reshape)
def _reshape(x, shape):
    return _reshaped(x, shape)


@_rule(torch.flatten, torch.Tensor.flatten)
def _flatten(x, start_dim=0, end_dim=-1):
    n = len(x._shape)
    start, end = start_dim % max(n, 1), end_dim % max(n, 1)
    return _reshaped(x, [*x._shape[:start], math.prod(x._shape[start : end + 1]), *x._shape[end + 1 :]])


@_rule(torch.unflatten, torch.Tensor.unflatten)
def _unflatten(x, dim, sizes):
    dim, sizes = dim % len(x._shape), list(sizes)
    if -1 in sizes and type(x._shape[dim]) is int:
        sizes[sizes.index(-1)] = x._shape[dim] // max(1, -math.prod(sizes))
    return _reshaped(x, [*x._shape[:dim], *sizes, *x._shape[dim + 1 :]])
