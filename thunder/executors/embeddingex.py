"""The gradient of an embedding's weight on NVIDIA GPUs, without a sort."""

from thunder import _C

embedding_ex = ex = _C.find_executor("embedding")
