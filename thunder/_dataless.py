"""Tensors that only tell which operators PyTorch runs on them, in which dtypes and of which sizes.

Small ones stand behind them, or ones on PyTorch's device "meta", of any size.  PyTorch's FakeTensorMode knows each
device's own ways as well, but its imports of torch._dynamo take seconds.
"""

import torch
from torch._prims import RETURN_TYPE
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

_SMALL = 8  # sizes up to it stay: kernels, dimensions and groups are such numbers


class SmallSizes:
    """Equal sizes for equal ones, in the same order: 8 and below as they are, the others from 9 on."""

    def __init__(self, shapes):
        large = sorted({n for shape in shapes for n in shape if n > _SMALL})
        self._sizes = {n: _SMALL + 1 + i for i, n in enumerate(large)}

    def of(self, n):
        return self._sizes.get(n, n)

    def shape(self, shape):
        return tuple(map(self.of, shape))


class LooksAtValues(Exception):
    """An operator's results depend on values, which there are not."""


class DatalessTensor(torch.Tensor):
    """A tensor on a device, for which PyTorch chooses operators as for any tensor there. `inner` lies on the CPU or on
    device "meta"."""

    @staticmethod
    def __new__(cls, inner, device):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=device,
        )

    def __init__(self, inner, device):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def any_small(args, kwargs):
    """Whether there is a DatalessTensor that lies on the CPU."""
    return any(isinstance(t, DatalessTensor) and t.inner.device.type == "cpu" for t in tree_leaves((args, kwargs)))


def storage(tensor):
    """What tells whether tensors share memory: operators that own to no view may give one."""
    return (tensor.inner if isinstance(tensor, DatalessTensor) else tensor).untyped_storage()._cdata


def _has_numbers(func, args):
    """Whether it takes elements by their numbers, and not those that a mask tells."""
    masks = (torch.bool, torch.uint8)
    return func is torch.ops.aten.index.Tensor and not any(t.dtype in masks for t in args[1] if t is not None)


_OF_VALUES = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
_CPU = torch.device("cpu")
_STORAGES = (torch.UntypedStorage, torch.TypedStorage)


def run(func, args, kwargs, where=_CPU):
    """An operator on what stands behind the tensors, which lies on `where`.

    A mode calls it: PyTorch's way to a subclass imports torch.distributed.tensor.
    """
    if _OF_VALUES & set(func.tags) and not _has_numbers(func, args):
        raise LooksAtValues(str(func))
    devices = []

    def inner(t):
        devices.append(t.device)
        return t.inner if isinstance(t, DatalessTensor) else t.to(where)  # one that a composition has made

    inner_args, inner_kwargs = tree_map_only(torch.Tensor, inner, (args, kwargs))
    inner_args = tree_map_only(_STORAGES, lambda s: torch.UntypedStorage(s.nbytes(), device=where), inner_args)
    device = kwargs.get("device")
    if device is None:
        device = next((d for d in devices if d.type != "cpu"), devices[0] if devices else torch.get_default_device())
    if "device" in kwargs or not devices:
        inner_kwargs["device"] = where
    results = func(*inner_args, **inner_kwargs)
    results = tree_map_only(torch.Tensor, lambda t: DatalessTensor(t, device), results)
    if getattr(func, "return_type", None) is RETURN_TYPE.VIEW:  # whatever the schema of prims.as_strided() says
        return results
    return return_and_correct_aliasing(func, args, kwargs, results)
