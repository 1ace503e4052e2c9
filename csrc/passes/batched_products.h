// Batched products: what a batch of matrix products reads lies in memory as BLAS reads it, and is aligned.
//
// Purpose       BLAS takes a batch whose matrices lie at one distance from each other, each by rows or by columns.
//               PyTorch copies other operands (heads within a sequence) where nobody sees it, with a kernel that moves
//               element by element, and again for each product that reads them.  And matrices of 49 rows fall to kernels
//               that read 2 bytes at a time.
// Precondition  Any functional trace; gradients are taken.  A fusion executor stands in the list: it computes a copied or
//               padded value in its place, and reads a part of a wider one, at no cost.
//
//   q = prims.mul(x, 0.25)                                   # [64, 3, 49, 32] bf16, heads within rows
//   k = ltorch.transpose(y, -2, -1)                          # [64, 3, 32, 49], y: a part of [64, 49, 9, 32]
//   t0 = ltorch.matmul(q, k)                                 # [64, 3, 49, 49]
//     -->
//   q1 = ltorch.reshape(prims.restride(q, [4704, 1568, 32, 1]), [192, 49, 32])
//   y1 = ltorch.reshape(prims.pad(y, 0, [..., (0, 7, 0), (0, 0, 0)]), [192, 56, 32])
//   t1 = ltorch.bmm(q1, ltorch.transpose(y1, 1, 2))          # [192, 49, 56]
//   t0 = prims.restride(ltorch.reshape(t1, [64, 3, 49, 56])[..., :49], [7203, 2401, 49, 1])
//
// An operand that BLAS cannot read is copied once for all products that read it, forward and backward.  Sizes along
// memory of 16-bit operands, and of the result, become multiples of 16 bytes where that gains more time than it takes:
// padding is free for what is copied anyway and for what kernels compute.  A result that is only read transposed is
// computed so.
//
// A composite that holds such a product, or copies what it reads (an einsum), is opened if no executor takes it whole.
// Left alone are products whose operands BLAS reads as they are, sizes that are not known, and products with one matrix
// (aligned_products.h).
#pragma once

#include <cstddef>

#include "passes/executor.h"
#include "passes/padding.h"

namespace thunder {

/// `boundary`: as for aligned_products().  `executors`: those that may take a composite whole.
Trace batched_products(const Trace& trace, size_t& boundary, const ExecutorList& executors,
                       const AlignmentCosts& costs = {});

}  // namespace thunder
