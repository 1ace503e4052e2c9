"""How a tensor's elements lie in memory: what it says of that, and resize_(), which leaves the data."""

import functools
import math

import torch

from ._marks import ours, refusal
from ._tracing import current_tracer, location


def _says(func, args, kwargs):
    """What the layout of a tensor is, which a proxy does not have."""
    tracer = current_tracer()
    if not tracer.knows(args[0]):
        with torch._C.DisableTorchFunction():
            return func(*args)
    layout = tracer.layout(args[0])
    name = func.__self__.__name__
    return getattr(torch, layout) if name == "layout" else layout == {"is_sparse": "sparse_coo"}.get(name, "sparse_csr")


def _dims(func, args, kwargs):
    """How many of the dimensions are sparse, or dense: of a strided tensor all are."""
    tracer = current_tracer()
    rank = len(tracer.shape(args[0]))
    dense = rank if tracer.layout(args[0]) == "strided" else tracer.dense_dims(args[0])
    return dense if func.__name__ == "dense_dim" else rank - dense


def _made_sparse(layout, func, args, kwargs):
    """The operator behind PyTorch's functions for a compressed layout: aten::sparse_csr_tensor has no gradient."""
    given = kwargs.get("layout") or layout
    if given is not layout:
        raise ours(RuntimeError(f"[{func.__name__}] layout must be {layout}, got {given}\n  at {location()}"))
    kwargs = {_COMPRESSED_NAMES.get(name, name): value for name, value in kwargs.items()}
    return torch.sparse_compressed_tensor(*args, **kwargs | {"layout": layout})


def _resize(func, args, kwargs):
    tensor, *size = args
    size = size or [kwargs["size"]]
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        (size,) = size
    return _resized(tensor, tuple(size), func.__name__, kwargs.get("memory_format") or torch.contiguous_format)


def _resize_as(func, args, kwargs):
    tensor, like = args if len(args) == 2 else (args[0], kwargs["the_template"])
    shape = current_tracer().shape(like)
    return _resized(tensor, tuple(shape), func.__name__, kwargs.get("memory_format") or torch.contiguous_format)


def _resized(tensor, size, op, memory_format):
    """The tensor, an as_strided() of its own elements from now on."""
    tracer = current_tracer()
    if tracer.requires_grad(tensor) and not torch.is_inference_mode_enabled():
        raise ours(RuntimeError(f"[{op}] cannot resize variables that require grad\n  at {location()}"))
    shape, strides = tuple(tracer.shape(tensor)), tuple(tracer.stride(tensor))
    if shape == size and memory_format in (torch.contiguous_format, torch.preserve_format):
        return tensor
    if tracer.is_from_outside(tensor):
        raise refusal(
            f"[{op}] cannot resize an argument of the compiled function or a tensor from outside; make a new one "
            f"(torch.empty)\n  at {location()}"
        )
    held = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if memory_format is not torch.contiguous_format or math.prod(size) > held:
        raise refusal(
            f"[{op}] a tensor of a compiled function can be resized to what its own elements fill, got {size} for "
            f"{shape} in {memory_format}; make a new one (torch.empty)\n  at {location()}"
        )
    new_strides = [math.prod(max(n, 1) for n in size[i + 1 :]) for i in range(len(size))]
    tracer.become(tensor, tensor.as_strided(size, new_strides), op)
    return tensor


_COMPRESSED_NAMES = {
    "crow_indices": "compressed_indices",
    "ccol_indices": "compressed_indices",
    "col_indices": "plain_indices",
    "row_indices": "plain_indices",
}
_COMPRESSED = {
    f"{name}_tensor": functools.partial(_made_sparse, getattr(torch, name)) for name in ("sparse_csr", "sparse_csc")
}

handlers = _COMPRESSED | {f"Tensor.{name}": _says for name in ("layout", "is_sparse", "is_sparse_csr")} | {
    "Tensor.sparse_dim": _dims,
    "Tensor.dense_dim": _dims,
    "Tensor.resize_": _resize,
    "Tensor.resize_as_": _resize_as,
    "resize_as_": _resize_as,
}
