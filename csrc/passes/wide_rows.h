// Wide rows: what is computed row by row, and then padded for a product, is computed in padded rows.
//
// Purpose       A product gives rows of 56 elements of which 49 mean something (batched_products.h); a softmax of those is
//               padded again for the next product.  A kernel for rows of 49 reads them one by one, and cannot store rows
//               of 56: the padded values would be computed by a second kernel.
// Precondition  Primitives, where a fusion executor sees through them; products are padded.  Gradients are taken.
//
//   s = t0[..., :49]                                          # t0: [64, 49, 56]
//   m = prims.amax(s, [2])
//   d = prims.sub(s, prims.broadcast_in_dim(m, [64, 49, 49], [0, 1]))
//   p = prims.pad(d, 0, [..., (0, 7, 0)])
//     -->
//   inside = prims.broadcast_in_dim(prims.lt(prims.iota(56, ...), 49), [64, 49, 56], [2])
//   s1 = prims.where(inside, t0, -inf)
//   m = prims.amax(s1, [2])
//   d1 = prims.sub(s1, prims.broadcast_in_dim(m, [64, 49, 56], [0, 1]))
//   p = prims.where(inside, d1, 0)
//   d = d1[..., :49]                                          # for who else reads it
//
// What stands behind the last element of a row is of no interest to who computes element by element: reductions and the
// padded value leave it out.  A tensor of the narrow rows that is read with them is padded where it is read.
//
// Rows are widened where a reduction over them leads to the padded value, and a part of rows of that width is where they
// come from: else one kernel does all of it as it is.
#pragma once

#include <cstddef>

#include "core/trace.h"

namespace thunder {

/// `boundary`: as for aligned_products().
Trace wide_rows(const Trace& trace, size_t& boundary);

}  // namespace thunder
