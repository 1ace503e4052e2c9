"""Products of 16-bit matrices by cuBLASLt, by the algorithm that is measured to be the fastest."""

from thunder import _C

cublaslt_ex = ex = _C.find_executor("cublaslt")
