// Products of 16-bit and of float8 matrices on NVIDIA GPUs by cuBLASLt, each by the algorithm that is measured to be the
// fastest.
//
// Takes torch.matmul, torch.mm, torch.linear (with a bias) and prims.matmul where the second operand is one matrix and
// both lie in memory as BLAS reads them, and torch._scaled_mm with one scale a matrix; PyTorch's own operators stay for
// the rest, and for pointers that are not aligned.  Sums are kept in float32 throughout, but where
// _scaled_mm allows fast ones.  Under torch.use_deterministic_algorithms(True) nothing is measured
// and cuBLASLt's first choice is taken.
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition cublaslt_executor();

}  // namespace thunder
