// Vector products: the product of a matrix and a vector is a sum of each row in a fused kernel.
//
// Purpose       A token that is generated reads each weight once, for one row of activations.  Libraries choose kernels
//               for such products that reach half of a GPU's bandwidth.  A fused reduction reaches more, and takes what
//               is computed of its result (a bias, an activation, a residual) along.
// Precondition  The calls are not claimed.  An executor that fuses sums stands in the list.
//
//   t0 = ltorch.linear(x, w, bias)                          # x: [1, 1, 64] bf16, w: [128, 64], bias: [128]
//     -->
//   t1 = prims.convert_element_type(w, float32)
//   t2 = prims.broadcast_in_dim(prims.convert_element_type(prims.view(x, [64]), float32), [128, 64], [1])
//   t3 = prims.sum(prims.mul(t1, t2), [1])
//   t4 = prims.add(t3, prims.convert_element_type(bias, float32))
//   t0 = prims.view(prims.convert_element_type(t4, bfloat16), [1, 1, 128])
//
// The sum is kept in float32 and rounded once, as the library's is.  Left alone are products on the CPU, matrices whose
// rows do not lie together (x @ w), small ones, sizes that are not known, calls that an executor takes which does not
// leave such products to a fusion (Executor::yields_vector_products), and lists in which another executor would take a
// part of the sum.
#pragma once

#include "passes/executor.h"

namespace thunder {

/// What is worth a kernel.
struct VectorProductLimits {
  int64_t least_terms = 64;          ///< elements of a row
  int64_t least_elements = 1 << 16;  ///< of the matrix
};

/// Any trace; products among a composite's calls are left to who opens it.
Trace vector_products(const Trace& trace, const ExecutorList& executors, const VectorProductLimits& limits = {});

}  // namespace thunder
