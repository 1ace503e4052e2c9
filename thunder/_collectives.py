"""torch.distributed's calls that write into tensors: PyTorch's functional collectives, and a copy.

The program then holds them in their order, and every call of it communicates.  Other communication leaves the function
to eager: barriers, what is sent to one process, objects, and what `async_op` leaves open; by its name here, so that no
code of PyTorch's runs first, or at the method of a process group (Reads::allow_call).
"""

import inspect

import torch
from torch import distributed

from . import _opaque
from ._tracing import current_tracer

handlers = {}


def _handler(*names):
    """For `compute(given, group)`: what is written to a tensor, as (tensor, result); None where that is not known."""

    def register(compute):
        for name in names:
            handlers[f"distributed.{name}"] = _writing(name, compute)
        return compute

    return register


def _writing(name, compute):
    def handle(func, args, kwargs):
        given = inspect.signature(func).bind(*args, **kwargs)
        given.apply_defaults()
        given = given.arguments
        group = _group(given.pop("group"))
        tensors = [a for a in given.values() if isinstance(a, torch.Tensor)]
        known = group is not None and not given.pop("async_op") and all(map(_is_plain, tensors))
        written = compute(given, group) if known else None
        if written is None:
            _leave(name)
        current_tracer().copy_into(*written, name)

    return handle


def _leave(name):
    current_tracer().leave_to_eager(f"the function communicates with other processes ({name}())")


for _name in """
    all_gather all_gather_coalesced all_gather_object all_reduce_coalesced all_to_all barrier batch_isend_irecv
    broadcast_object_list destroy_process_group gather gather_object init_process_group irecv isend monitored_barrier
    new_group new_subgroups recv recv_object_list reduce reduce_scatter scatter scatter_object_list send
    send_object_list
""".split():
    handlers[f"distributed.{_name}"] = lambda func, args, kwargs: _leave(func.__name__)


def _group(group):
    if not distributed.is_initialized():
        return None
    group = group or distributed.group.WORLD
    return group if isinstance(group, distributed.ProcessGroup) else None


def _is_plain(tensor):
    """Contiguous, real, and without a gradient, which would not be that of the functional collective."""
    tracer = current_tracer()
    sizes = [*tracer.shape(tensor), *tracer.stride(tensor)]
    return (
        all(type(n) is int for n in sizes)
        and tracer.is_contiguous(tensor, "contiguous_format")
        and not tensor.dtype.is_complex
        and not tracer.has_gradient(tensor)
    )


def _collective(name, *args):
    """The result of `torch.ops._c10d_functional`'s operator, once it is there."""
    operators = torch.ops._c10d_functional
    started = _opaque.resolve(getattr(operators, name).default, args, {})()
    return _opaque.resolve(operators.wait_tensor.default, (started,), {})()


def _reduction(op):
    """The operators' name of a ReduceOp without a factor."""
    named = {getattr(distributed.ReduceOp, n): n.lower() for n in "SUM AVG PRODUCT MIN MAX BAND BOR BXOR".split()}
    return named.get(op)


def _are_parts(part, whole, group):
    """Whether `whole` has the parts of all processes, one behind the other."""
    shape = part.dim() > 0 and (part.shape[0] * group.size(), *part.shape[1:])
    return part.dtype is whole.dtype and whole.shape == shape


@_handler("all_reduce")
def _all_reduce(given, group):
    reduction = _reduction(given["op"])
    if reduction is not None:
        return given["tensor"], _collective("all_reduce", given["tensor"], reduction, group.group_name)


@_handler("broadcast")
def _broadcast(given, group):
    source = given.get("group_src")
    if source is None:
        source = distributed.get_group_rank(group, given["src"])
    return given["tensor"], _collective("broadcast", given["tensor"], source, group.group_name)


@_handler("all_gather_into_tensor", "all_gather_single")
def _all_gather(given, group):
    output, source = given["output_tensor"], given["input_tensor"]
    if _are_parts(source, output, group):
        return output, _collective("all_gather_into_tensor", source, group.size(), group.group_name)


@_handler("reduce_scatter_tensor", "reduce_scatter_single")
def _reduce_scatter(given, group):
    output, source, reduction = given["output"], given["input"], _reduction(given["op"])
    if _are_parts(output, source, group) and reduction is not None:
        return output, _collective("reduce_scatter_tensor", source, reduction, group.size(), group.group_name)


@_handler("all_to_all_single")
def _all_to_all(given, group):
    output, source = given["output"], given["input"]
    even = given["output_split_sizes"] is None and given["input_split_sizes"] is None
    same = output.shape == source.shape and output.dtype is source.dtype
    if even and same and source.dim() > 0 and source.shape[0] % group.size() == 0:
        parts = [source.shape[0] // group.size()] * group.size()
        return output, _collective("all_to_all_single", source, parts, parts, group.group_name)
