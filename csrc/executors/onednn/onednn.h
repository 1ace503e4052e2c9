// Products of float32 matrices on the CPU by oneDNN, where that is measured to be faster than PyTorch's BLAS.
//
// Takes torch.linear, torch.matmul, torch.mm and prims.matmul where the second operand is one matrix, by rows or by columns, and the
// first lies by rows.  The first run of a product, of about so many rows, columns and terms and so many threads, measures
// both libraries on its own operands; which of them is faster depends on the processor and the sizes.  Under
// torch.use_deterministic_algorithms(True), and where torch.backends.mkldnn is switched off, PyTorch's BLAS computes.
//
//   t2 = onednn_linear(t0, t1, None)
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition onednn_executor();

}  // namespace thunder
