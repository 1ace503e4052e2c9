// Narrow masks: what only repeats itself in a mask of attention is computed, kept and read once.
//
// Purpose       Libraries expand a mask to the batch before they combine it with a bias of the heads.  The result then
//               lies in memory once for each sample, every layer reads all of it, and its gradient is as large.
//               Kernels repeat a mask themselves, along the batch, the heads and the rows.
// Precondition  Attention is whole, and no gradient has been taken of it.
//
//   t0 = ltorch.expand(seen, [16, 1, 5, 7])                    # seen: b8[1, 1, 5, 7]
//   m = ltorch.where(t0, bias, float('-inf'))                  # [16, 4, 5, 7], bias: f32[1, 4, 5, 7]
//   t1 = ltorch.scaled_dot_product_attention(q, k, v, m)
//     -->
//   t2 = prims.broadcast_in_dim(seen, [1, 4, 5, 7], [0, 1, 2, 3])
//   m1 = prims.where(t2, bias, float('-inf'))                  # [1, 4, 5, 7]
//   t1 = ltorch.scaled_dot_product_attention(q, k, v, m1)
//
// Which dimensions repeat themselves follows from the calls behind the mask: broadcasts, permutations, and what is
// computed element by element.  Where another call stands, its result is cut to one element by a view.
//
// Left alone are the last dimension, of which kernels read rows; sizes that are not known; a mask that is a broadcast
// itself, which takes no memory, unless it has a gradient; and what was computed without a gradient of an operand that
// has one.  What no one else reads of the wide mask is dead code afterwards.
#pragma once

#include "core/trace.h"

namespace thunder {

Trace narrow_masks(const Trace& trace);

}  // namespace thunder
