"""Tensors that only tell which operators PyTorch runs on them, and in which dtypes: small ones stand behind them.

PyTorch's FakeTensorMode knows sizes, strides and each device's own ways as well, but its imports of torch._dynamo take
seconds.
"""

import torch
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
    """An operator's results depend on values, which small tensors do not have."""


class DatalessTensor(torch.Tensor):
    """A tensor on a device, for which PyTorch chooses operators as for any tensor there. `small` lies on the CPU."""

    @staticmethod
    def __new__(cls, small, device):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            small.shape,
            strides=small.stride(),
            storage_offset=small.storage_offset(),
            dtype=small.dtype,
            device=device,
        )

    def __init__(self, small, device):
        self.small = small

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def any_dataless(args, kwargs):
    return any(isinstance(t, DatalessTensor) for t in tree_leaves((args, kwargs)))


def run(func, args, kwargs):
    """An operator on small tensors. A mode calls it: PyTorch's way to a subclass imports torch.distributed.tensor."""
    if {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags):
        raise LooksAtValues(str(func))
    devices = []

    def small(t):
        devices.append(t.device)
        return t.small if isinstance(t, DatalessTensor) else t.cpu()  # one that a composition has made

    small_args, small_kwargs = tree_map_only(torch.Tensor, small, (args, kwargs))
    device = kwargs.get("device")
    if device is None:
        device = next((d for d in devices if d.type != "cpu"), devices[0])
    else:
        small_kwargs["device"] = "cpu"
    results = func(*small_args, **small_kwargs)
    results = tree_map_only(torch.Tensor, lambda t: DatalessTensor(t, device), results)
    return return_and_correct_aliasing(func, args, kwargs, results)
