"""How a tensor's elements lie in memory: what it says of that, and in-place operators that change sizes or strides and
leave the data, by which the object becomes a view of it."""

import math

import torch

from ._tracing import current_tracer, location


def _become(tensor, view, op):
    """The object `tensor` is `view` from here on, a new view of its data; returns it."""
    tracer = current_tracer()
    if tracer.requires_grad(tensor) and not torch.is_grad_enabled():
        raise NotImplementedError(
            f"[{op}] changing the sizes or strides of a tensor that requires grad under no_grad is not supported\n  at "
            f"{location()}"
        )
    tracer.become(tensor, view, op)
    with torch._C.DisableTorchFunction():
        torch.Tensor.data.__set__(tensor, view)  # its sizes and strides
    return tensor


def _in_place(func, args, kwargs):
    """x.t_() by x.t()"""
    tracer = current_tracer()
    op = func.__name__.removesuffix("_")
    view = tracer.apply(f"torch.{op}", args, kwargs)
    if op != "as_strided" and _layout(view) == _layout(args[0]):
        return args[0]
    return _become(args[0], view, func.__name__)


def _layout(tensor):
    tracer = current_tracer()
    return tuple(tracer.shape(tensor)), tuple(tracer.stride(tensor))


def _resize(func, args, kwargs):
    tensor, *size = args
    size = size or [kwargs["size"]]
    if len(size) == 1 and not isinstance(size[0], int):
        (size,) = size
    return _resized(tensor, tuple(size), func.__name__, kwargs.get("memory_format", torch.contiguous_format))


def _resize_as(func, args, kwargs):
    tensor, like = args if len(args) == 2 else (args[0], kwargs["the_template"])
    shape = current_tracer().shape(like)
    return _resized(tensor, tuple(shape), func.__name__, kwargs.get("memory_format", torch.contiguous_format))


def _resized(tensor, size, op, memory_format):
    tracer = current_tracer()
    if tracer.requires_grad(tensor):
        raise RuntimeError(f"[{op}] cannot resize variables that require grad\n  at {location()}")
    shape, strides = _layout(tensor)
    if shape == size and memory_format in (torch.contiguous_format, torch.preserve_format):
        return tensor
    held = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if memory_format is not torch.contiguous_format or math.prod(size) > held:
        raise NotImplementedError(
            f"[{op}] a tensor of a compiled function can be resized to what its own elements fill, got {size} for "
            f"{shape} in {memory_format}; make a new one (torch.empty)\n  at {location()}"
        )
    new_strides = [math.prod(max(n, 1) for n in size[i + 1 :]) for i in range(len(size))]
    return _become(tensor, tracer.apply("torch.as_strided", (tensor, list(size), new_strides)), op)


def _says(func, args, kwargs):
    """What the layout of a tensor is, which a proxy does not have."""
    tracer = current_tracer()
    if not tracer.knows(args[0]):
        with torch._C.DisableTorchFunction():
            return func(*args)
    layout = tracer.layout(args[0])
    name = func.__self__.__name__
    return getattr(torch, layout) if name == "layout" else layout == {"is_sparse": "sparse_coo"}.get(name, "sparse_csr")


handlers = {f"Tensor.{name}": _says for name in ("layout", "is_sparse", "is_sparse_csr")} | {
    f"Tensor.{name}": _in_place
    for name in ("t_", "transpose_", "swapaxes_", "swapdims_", "unsqueeze_", "squeeze_", "as_strided_")
} | {
    "as_strided_": _in_place,
    "Tensor.resize_": _resize,
    "Tensor.resize_as_": _resize_as,
    "resize_as_": _resize_as,
}
