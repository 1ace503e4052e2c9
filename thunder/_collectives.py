"""torch.distributed's calls that write into tensors: PyTorch's functional collectives, and a copy.

The program then holds them in their order, and every call of it communicates.  Other communication leaves the function
to eager: barriers, what is sent to one process, and objects; by its name here, so that no code of PyTorch's runs first,
or at the method of a process group (Reads::allow_call).
"""

import inspect

import torch
from torch import distributed

from . import _opaque
from ._tracing import current_tracer

handlers = {}


def _handler(*names):
    """For `compute(given, group)`: what is written, as [(tensor, result)]; None where that is not known."""

    def register(compute):
        for name in names:
            handlers[f"distributed.{name}"] = _writing(name, compute)
        return compute

    return register


def given_to(func, args, kwargs):
    """A call's arguments by their names, with defaults, and its group; None for one that programs do not know."""
    given = inspect.signature(func).bind(*args, **kwargs)
    given.apply_defaults()
    given = given.arguments
    return given, group_or_none(given.pop("group"))


def _writing(name, compute):
    def handle(func, args, kwargs):
        given, group = given_to(func, args, kwargs)
        open_ended = given.pop("async_op")
        known = group is not None and all(_is_plain(t) for a in given.values() for t in _tensors(a))
        written = compute(given, group) if known else None
        if written is None:
            leave(name)
        for target, result in written:
            current_tracer().copy_into(target, result, name)
        return _Done() if open_ended else None

    return handle


class _Done:
    """The work that `async_op=True` gives: a program waits for what it reads."""

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True

    is_success = is_completed

    def exception(self):
        return None

    def synchronize(self):
        pass

    block_current_stream = synchronize

    def get_future(self):
        leave("get_future")


def _tensors(value):
    values = value if isinstance(value, (list, tuple)) else (value,)
    return [v for v in values if isinstance(v, torch.Tensor)]


def leave(name):
    current_tracer().leave_to_eager(f"the function communicates with other processes ({name}())")


for _name in """
    all_gather_coalesced all_gather_object all_reduce_coalesced all_to_all barrier batch_isend_irecv
    broadcast_object_list destroy_process_group gather gather_object init_process_group irecv isend monitored_barrier
    new_group new_subgroups recv recv_object_list reduce scatter scatter_object_list send
    send_object_list
""".split():
    handlers[f"distributed.{_name}"] = lambda func, args, kwargs: leave(func.__name__)


def group_or_none(group):
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
        and not (torch.is_grad_enabled() and tracer.has_gradient(tensor))
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
        return [(given["tensor"], _collective("all_reduce", given["tensor"], reduction, group.group_name))]


@_handler("broadcast")
def _broadcast(given, group):
    source = given.get("group_src")
    if source is None:
        source = distributed.get_group_rank(group, given["src"])
    return [(given["tensor"], _collective("broadcast", given["tensor"], source, group.group_name))]


def _gathered(tensor, group):
    return _collective("all_gather_into_tensor", tensor, group.size(), group.group_name)


def _scattered(tensor, reduction, group):
    return _collective("reduce_scatter_tensor", tensor, reduction, group.size(), group.group_name)


@_handler("all_gather_into_tensor", "all_gather_single")
def _all_gather(given, group):
    output, source = given["output_tensor"], given["input_tensor"]
    if _are_parts(source, output, group):
        return [(output, _gathered(source, group))]


@_handler("all_gather")
def _all_gather_list(given, group):
    parts, source = given["tensor_list"], given["tensor"]
    if _are_alike(parts, source, group):
        whole = _gathered(_apply("unsqueeze", source, 0), group)
        return [(p, _apply("select", whole, 0, i)) for i, p in enumerate(parts)]


@_handler("reduce_scatter_tensor", "reduce_scatter_single")
def _reduce_scatter(given, group):
    output, source, reduction = given["output"], given["input"], _reduction(given["op"])
    if _are_parts(output, source, group) and reduction is not None:
        return [(output, _scattered(source, reduction, group))]


@_handler("reduce_scatter")
def _reduce_scatter_list(given, group):
    output, parts, reduction = given["output"], given["input_list"], _reduction(given["op"])
    if _are_alike(parts, output, group) and reduction is not None:
        return [(output, _apply("select", _scattered(_apply("stack", list(parts)), reduction, group), 0, 0))]


def _apply(name, *args):
    return current_tracer().apply(f"torch.{name}", args)


def _are_alike(parts, tensor, group):
    """Whether there is one of the tensor's shape and dtype for each process."""
    return len(parts) == group.size() and all(p.dtype is tensor.dtype and p.shape == tensor.shape for p in parts)


def _splits(given, rows, world):
    """How many rows go to each process; None where they do not say."""
    if given is None or len(given) == 0:
        return [rows // world] * world if rows % world == 0 else None
    return list(given) if len(given) == world and sum(given) == rows else None


@_handler("all_to_all_single")
def _all_to_all(given, group):
    output, source = given["output"], given["input"]
    if source.dim() == 0 or output.shape[1:] != source.shape[1:] or output.dtype is not source.dtype:
        return None
    received = _splits(given["output_split_sizes"], output.shape[0], group.size())
    sent = _splits(given["input_split_sizes"], source.shape[0], group.size())
    if received is not None and sent is not None:
        return [(output, _collective("all_to_all_single", source, received, sent, group.group_name))]
