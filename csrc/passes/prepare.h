// Prepared arguments: what an executor makes of an argument before its kernel can read it is made in the program,
// before common subexpressions are found.
//
// Several calls of attention read one mask, and kernels want numbers where programs give booleans.  Made by each call's
// transform, the numbers would be made, and kept for the backward, once for each layer.
//
//   t0 = ltorch.scaled_dot_product_attention(q, k, v, m)
//     -->
//   m1 = prims.where(m, zeros, -inf)
//   t0 = ltorch.scaled_dot_product_attention(q, k, v, m1)
#pragma once

#include "passes/executor.h"

namespace thunder {

/// Each call as the executor that takes it wants its arguments (Implementation::prepare).
Trace prepare(const Trace& trace, const ExecutorList& executors);

}  // namespace thunder
