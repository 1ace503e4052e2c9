"""CUDA tensors without a GPU: metadata that PyTorch's own meta kernels compute, no numbers.

    with fake_cuda.tensors(capability=(9, 0), cudnn=91700):
        q = torch.randn(2, 8, 16, 64, device="cuda")
        compiled(q)  # compiled and run; THUNDER_CHECK_RUN=1 compares dtypes, shapes and strides

A backward runs through `out.grad_fn(cotangent)`: autograd's engine would want a device.
"""

import contextlib
import ctypes
from pathlib import Path
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from thunder import _C

_CPU, _CUDA = 0, 1  # places in c10's table of device guards


@contextlib.contextmanager
def _guard():
    """A CPU build knows no CUDA device guard, which autograd asks for streams: the CPU's, idle, stands in."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    table = (ctypes.c_void_p * 2).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    before = table[_CUDA]
    if before is None:
        table[_CUDA] = table[_CPU]
    try:
        yield
    finally:
        table[_CUDA] = before


@contextlib.contextmanager
def _without_watchers():
    """Else calls would run eagerly: FakeTensorMode is a mode."""
    _C.set_ignores_watchers(True)
    try:
        yield
    finally:
        _C.set_ignores_watchers(False)


@contextlib.contextmanager
def _without_kernels():
    """Generated kernels read memory, of which there is none."""
    fuser = [e for e in _C.default_executors() if e.name == "fuser"]
    _C.remove_default_executor("fuser")
    try:
        yield
    finally:
        others = [e for e in _C.default_executors() if e.name in ("cudnn", "sdpa")]
        for executor in reversed(others + fuser if fuser else []):
            _C.add_default_executor(executor)  # to the front


@contextlib.contextmanager
def tensors(capability=(9, 0), cudnn=91700):
    with (
        _without_watchers(),
        _guard(),
        mock.patch("torch.cuda.get_device_capability", lambda index=0: capability),
        mock.patch("torch.backends.cudnn.version", lambda: cudnn),
        FakeTensorMode(allow_non_fake_inputs=True),
        _without_kernels(),
    ):
        yield
