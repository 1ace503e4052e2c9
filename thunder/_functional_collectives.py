"""PyTorch's collectives that give new tensors, as calls of records: `torch.distributed._functional_collectives`, and
the differentiable ones of `torch.distributed.nn`.

A record's result is there when it is read, so that waiting for it is no call.  What has no record (broadcasts,
exchanges of parts, lists of tensors) runs as PyTorch's operator, with the gradient of PyTorch's autograd.
"""

import torch
from torch import distributed

from . import _collectives, _opaque
from ._tracing import current_tracer

if distributed.is_available():
    import torch.distributed.nn.functional  # what is registered has to be there

handlers = {}


def _records(*names):
    """For `record(tensor, *arguments)`: the result, or None where PyTorch's operator has to run."""

    def register(record):
        for name in names:
            for namespace in ("_c10d_functional", "_c10d_functional_autograd"):
                _opaque.recorded[f"{namespace}::{name}"] = record
        return record

    return register


def _world(group):
    """The number of processes in a group; None for what is no name of one."""
    if not isinstance(group, str):
        return None
    return distributed.distributed_c10d._get_group_size_by_name(group)


def _has_record(tensor, reduction):
    """The gradient of another reduction than a sum is an error in the backward, by PyTorch's rule."""
    if tensor.dtype.is_complex or reduction not in ("sum", "avg", "max", "min"):
        return False
    if reduction == "avg" and not tensor.dtype.is_floating_point:
        return False
    return reduction == "sum" or not (torch.is_grad_enabled() and current_tracer().has_gradient(tensor))


def _has_rows(tensor):
    """Of other strides PyTorch's operators make an error."""
    return tensor.dim() > 0 and current_tracer().is_contiguous(tensor, "contiguous_format")


@_records("all_reduce")
def _all_reduce(tensor, reduction, group):
    world, reduction = _world(group), reduction.lower()
    if world is not None and _has_record(tensor, reduction):
        return _arrived(current_tracer().apply("torch.all_reduce", (tensor, reduction, group, world)))


@_records("all_gather_into_tensor")
def _all_gather(tensor, world, group):
    if world == _world(group) and _has_rows(tensor) and not tensor.dtype.is_complex:
        return _arrived(current_tracer().apply("torch.all_gather", (tensor, group, world)))


@_records("reduce_scatter_tensor")
def _reduce_scatter(tensor, reduction, world, group):
    reduction = reduction.lower()
    if world != _world(group) or not _has_rows(tensor) or not _has_record(tensor, reduction):
        return None
    if int(current_tracer().shape(tensor)[0]) % world == 0:
        return _arrived(current_tracer().apply("torch.reduce_scatter", (tensor, reduction, group, world)))


def _arrived(tensor):
    """As eager's AsyncCollectiveTensor it has a method wait()."""
    tensor._thunder_arrived = True
    tensor.wait = lambda: tensor
    return tensor


@_records("wait_tensor")
def _wait(tensor):
    return tensor if getattr(tensor, "_thunder_arrived", False) else None


@_records("_wrap_tensor_autograd")
def _wrap(tensor):
    """What eager waits for at the first use is waited for here."""
    if _wait(tensor) is not None:
        return tensor
    return _arrived(_opaque.resolve(torch.ops._c10d_functional.wait_tensor.default, (tensor,), {})())


# ---- torch.distributed.nn -------------------------------------------------------------------------------------------


def _differentiable(*names):
    """For `compute(given, group)`: what the function of torch.distributed.nn gives."""

    def register(compute):
        for name in names:
            handlers[f"distributed.nn.functional.{name}"] = _function(name, compute)
        return compute

    return register


def _function(name, compute):
    def handle(func, args, kwargs):
        given, group = _collectives.given_to(func, args, kwargs)
        result = compute(given, group) if group is not None else None
        if result is None:
            _collectives.leave(name)
        return result

    return handle


for _name in "all_to_all gather reduce scatter".split():
    handlers[f"distributed.nn.functional.{_name}"] = lambda func, args, kwargs: _collectives.leave(
        func.__name__
    )


def _all_reduced(tensor, op, group):
    tensor = tensor.clone(memory_format=torch.contiguous_format)
    distributed.all_reduce(tensor, op, group)
    return tensor


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, op, group):
        ctx.op, ctx.group = op, group
        return _all_reduced(tensor, op, group)

    @staticmethod
    def backward(ctx, gradient):
        return _all_reduced(gradient, ctx.op, ctx.group), None, None


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, source, group):
        ctx.group = group
        ctx.is_source = distributed.get_rank(group) == distributed.get_group_rank(group, source)
        tensor = tensor.clone(memory_format=torch.contiguous_format)
        distributed.broadcast(tensor, source, group)
        return tensor

    @staticmethod
    def backward(ctx, gradient):
        gradient = _all_reduced(gradient, distributed.ReduceOp.SUM, ctx.group)
        return gradient if ctx.is_source else torch.zeros_like(gradient), None, None


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, group):
        ctx.group = group
        parts = [torch.empty_like(tensor, memory_format=torch.contiguous_format) for _ in range(group.size())]
        distributed.all_gather(parts, tensor.contiguous(), group)
        return tuple(parts)

    @staticmethod
    def backward(ctx, *gradients):
        part = torch.empty_like(gradients[0], memory_format=torch.contiguous_format)
        distributed.reduce_scatter(part, [g.contiguous() for g in gradients], group=ctx.group)
        return part, None


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, op, group, output, *parts):
        ctx.group = group
        part = torch.empty_like(output, memory_format=torch.contiguous_format)
        distributed.reduce_scatter(part, [p.contiguous() for p in parts], op, group)
        return part

    @staticmethod
    def backward(ctx, gradient):
        parts = [torch.empty_like(gradient, memory_format=torch.contiguous_format) for _ in range(ctx.group.size())]
        distributed.all_gather(parts, gradient.contiguous(), ctx.group)
        return None, None, None, *parts


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, group, output, received, sent, tensor):
        ctx.group, ctx.received, ctx.sent, ctx.shape = group, sent, received, tensor.shape
        exchanged = torch.empty_like(output, memory_format=torch.contiguous_format)
        distributed.all_to_all_single(exchanged, tensor.contiguous(), received, sent, group)
        return exchanged

    @staticmethod
    def backward(ctx, gradient):
        exchanged = gradient.new_empty(ctx.shape)
        distributed.all_to_all_single(exchanged, gradient.contiguous(), ctx.received, ctx.sent, ctx.group)
        return None, None, None, None, exchanged


@_differentiable("all_reduce")
def _nn_all_reduce(given, group):
    return _AllReduce.apply(given["tensor"], given["op"], group)


@_differentiable("broadcast")
def _nn_broadcast(given, group):
    return _Broadcast.apply(given["tensor"], given["src"], group)


@_differentiable("all_gather")
def _nn_all_gather(given, group):
    return _AllGather.apply(given["tensor"], group)


def _written(output, result):
    """As eager, which writes the result into the output and gives that; whose own gradient would be lost."""
    if current_tracer().has_gradient(output):
        return None
    output.copy_(result)
    return output


@_differentiable("reduce_scatter")
def _nn_reduce_scatter(given, group):
    return _written(given["output"], _ReduceScatter.apply(given["op"], group, given["output"], *given["input_list"]))


@_differentiable("all_to_all_single")
def _nn_all_to_all(given, group):
    splits = given["output_split_sizes"], given["input_split_sizes"]
    return _written(given["output"], _AllToAll.apply(group, given["output"], *splits, given["input"]))
