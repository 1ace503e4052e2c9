// Sums of one-hot rows: a sum along a dimension in which at most one element is not zero is that element.
//
// The gradient of a look-up (the loss of class labels) is a row of zeros but for the place that was looked up, written
// as a comparison of places with a number of the row.  A softmax in front of it sums that row: a walk over all of it
// for a number that is known, and in a fused kernel a phase of its own.
//
//   t1 = prims.iota(32000, 0, 1)
//   t2 = prims.broadcast_in_dim(t1, [8192, 32000], [1])
//   t3 = prims.broadcast_in_dim(label, [8192, 32000], [0])
//   t4 = prims.eq(t2, t3)
//   t5 = prims.where(t4, g, 0.0)                   # g: a number, or broadcast along dimension 1
//   t6 = prims.sum(t5, [1])
//     -->
//   t6 = prims.where(prims.bitwise_and(prims.ge(label, 0), prims.lt(label, 32000)), g', 0.0)
//
// with g' as g was before it was broadcast.  More conditions may stand beside the comparison if they do not change
// along the dimension, and conversions and negations between where and sum.  Equal to the sum but for the sign of a
// zero.  What no one else reads of the row is dead code afterwards.
#pragma once

#include "core/trace.h"

namespace thunder {

/// Any trace; calls that are primitives are looked at, composites are not opened.
Trace one_hot_sums(const Trace& trace);

}  // namespace thunder
