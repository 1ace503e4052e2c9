"""Tensors without data, for meta functions and checks."""

import torch

from .. import _C, _tracing
from .._marks import ours, refusal


class _TensorProxyType(type):
    def __instancecheck__(cls, obj):
        return isinstance(obj, _tracing.TensorProxy)

    def __subclasscheck__(cls, other):
        return issubclass(other, _tracing.TensorProxy)


class TensorProxy(metaclass=_TensorProxyType):
    """TensorProxy(like=a, dtype=torch.float32): the metadata of a tensor.

    What is not given is `like`'s. Without `like`, `shape`, `dtype` (float32 if None) and `device` (the CPU if None)
    make it. A new shape is contiguous; `like`'s shape has the strides that torch.empty_like would give it. `layout` is
    the name of a sparse one ("sparse_coo"), which has no strides; its last `dense_dims` dimensions are dense.
    """

    def __new__(
        cls, *, like=None, shape=None, dtype=None, device=None, requires_grad=None, strides=None, layout="strided",
        dense_dims=0,
    ):
        if like is None and shape is None:
            raise ours(ValueError("[TensorProxy] like= or shape= must be given"))
        tracer = _tracing.current_tracer()
        if tracer is not None:
            return _C.new_tensor(tracer, like, shape, dtype, device, requires_grad, strides, layout, dense_dims)
        if layout != "strided":
            raise refusal("[TensorProxy] a sparse tensor outside of a meta function")
        if like is not None:
            if shape is None and strides is None:
                strides = torch.empty_like(like, device="meta").stride()
            shape = like.shape if shape is None else shape
            dtype = like.dtype if dtype is None else dtype
            device = like.device if device is None else device
            requires_grad = like.requires_grad if requires_grad is None else requires_grad
        return torch.Tensor._make_wrapper_subclass(
            _tracing.TensorProxy,
            tuple(shape),
            strides,
            dtype=dtype or torch.float32,
            device=device or "cpu",
            requires_grad=bool(requires_grad),
        )
