"""Depthwise convolutions over two dimensions on NVIDIA GPUs, for images that lie channels last."""

from thunder import _C

depthwise_ex = ex = _C.find_executor("depthwise")
