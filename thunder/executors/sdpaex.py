"""Fused attention by PyTorch's own kernels, with the log-sum-exp saved for the backward."""

from thunder import _C

sdpa_ex = ex = _C.find_executor("sdpa")
