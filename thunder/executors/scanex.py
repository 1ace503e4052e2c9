"""Scans on NVIDIA GPUs: cumsum, cumprod and logcumsumexp, and their gradients."""

from thunder import _C

scan_ex = ex = _C.find_executor("scan")
