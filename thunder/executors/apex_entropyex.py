"""Cross entropy by Apex (https://github.com/NVIDIA/apex)."""

import importlib.util

import torch

from ..extend import OperatorExecutor, register_executor


def _unavailable():
    if importlib.util.find_spec("xentropy_cuda") is None:
        return "Apex's extension 'xentropy_cuda' is not installed (build Apex with --xentropy)"
    if not torch.cuda.is_available():
        return "Apex's kernels need a CUDA device, and PyTorch finds none"
    return "Apex's cross entropy is not connected in this version; 'aten' runs it"


apex_ex = register_executor(OperatorExecutor("apex", unavailable=_unavailable()))
