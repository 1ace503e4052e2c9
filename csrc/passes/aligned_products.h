// Aligned products: large matrix products get sizes that a GPU's fast kernels take.
//
// Purpose       cuBLAS has its fast kernels for 16-bit products whose sizes along memory are multiples of 16 bytes.  A
//               vocabulary of 50,257 words is none, and products with it take four times as long.
// Precondition  Any functional trace; gradients are taken.  A fusion executor stands in the list: it computes a padded
//               value, and reads a part of a wider one, at no cost.
//
//   w = prims.convert_element_type(...)                  # [50257, 768] bf16
//   g = prims.convert_element_type(...)                  # [16384, 50257] bf16
//   t0 = ltorch.matmul(g, w)                             # [16384, 768]
//   t1 = ltorch.linear(x, w)                             # [16384, 50257]
//     -->
//   w1 = prims.pad(w, 0, [(0, 7, 0), (0, 0, 0)])
//   g1 = prims.pad(g, 0, [(0, 0, 0), (0, 7, 0)])
//   t0 = ltorch.matmul(g1, w1)
//   t2 = ltorch.linear(x, w1)                            # [16384, 50264]
//   t1 = prims.restride(t2[:, :50257], [50257, 1])
//
// A pad or a restride of what a kernel computes or reads is a part of that kernel.  Any other is a copy: of inputs, and
// of results that the program returns.  So a product is changed only where it gains more time than its copies take.
#pragma once

#include <cstddef>

#include "core/trace.h"
#include "passes/padding.h"

namespace thunder {

/// `boundary`: a number of calls at the trace's begin (those of a joint trace's forward); set to how many they are in
/// the result.
Trace aligned_products(const Trace& trace, size_t& boundary, const AlignmentCosts& costs = {});

}  // namespace thunder
