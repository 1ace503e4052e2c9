"""Where the tests run: on the CPU, or with `pytest --device cuda` on a GPU."""

import contextlib
import os
from unittest import mock

import torch

DEVICE = os.environ.get("THUNDER_TEST_DEVICE", "cpu")
ON_CPU = DEVICE == "cpu"


def seeds_of_the_cpu():
    """Within it torch.manual_seed() seeds the CPU, where there is nothing else to seed.

    For a device that may begin later PyTorch keeps each seed with a formatted stack, which takes a seventh of a test.
    """
    if not ON_CPU or torch.cuda.is_available():
        return contextlib.nullcontext()
    return mock.patch.object(torch, "manual_seed", torch.default_generator.manual_seed)


def on_device(x):
    """The tensor on that device with its strides, gaps included; anything else as it is."""
    if ON_CPU or not isinstance(x, torch.Tensor):
        return x
    size = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    memory = x.detach().as_strided((size,), (1,)).to(DEVICE)
    return memory.as_strided(x.shape, x.stride()).requires_grad_(x.requires_grad)


def moved(value, device=DEVICE):
    """The tensors of an argument, or of all in a list, tuple or dict, on that device; leaves stay leaves."""
    if isinstance(value, torch.Tensor):
        there = value.to(device)
        return there.detach().requires_grad_() if value.requires_grad and value.is_leaf else there
    if isinstance(value, (list, tuple)):
        items = [moved(v, device) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: moved(v, device) for k, v in value.items()}
    return value
