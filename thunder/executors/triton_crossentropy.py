"""Cross entropy by a Triton kernel."""

import importlib.util

import torch

from ..extend import OperatorExecutor, register_executor


def _unavailable():
    if importlib.util.find_spec("triton") is None:
        return "the package 'triton' is not installed"
    if not torch.cuda.is_available():
        return "Triton's kernels need a CUDA device, and PyTorch finds none"
    return "there is no Triton kernel for cross entropy in this version; 'aten' runs it"


triton_ex = register_executor(OperatorExecutor("triton", unavailable=_unavailable()))
