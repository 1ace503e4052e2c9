"""The embedded fusion executor: regions of a program as generated kernels, for the CPU and for NVIDIA GPUs."""

from thunder import _C

fuser_ex = ex = _C.find_executor("fuser")
