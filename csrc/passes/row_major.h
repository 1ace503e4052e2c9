// Row-major values: a permuted value among rows is written with its rows in memory.
//
// Purpose       Pointwise operators keep the layout of a permuted operand, so one permuted addend (a convolution's output
//               in front of a transformer) permutes all sums behind it.  Kernels that walk along rows (layer norms)
//               then read and write each element in another part of memory, in every layer.  On a GPU a permuted value
//               that is broadcast (a table of position biases) would be read element by element as often as it is
//               repeated.
// Precondition  Before autodiff, so that gradients are laid out alike.  A fusion executor stands in the list: what makes
//               the value then writes it in any layout at no cost.
//
//   t0 = ltorch.permute(x, [0, 2, 1])                 # [16, 1500, 768], strides (1152000, 1, 1500)
//   t1 = ltorch.add(t0, places)                       # the same strides
//   t2 = ltorch.layer_norm(t1, [768], w, b)
//   t3 = ltorch.add(t1, t2)                           # the same strides
//     -->
//   t1 = ltorch.add(t0, places)
//   t4 = prims.restride(t1, [1152000, 768, 1])
//   t2 = ltorch.layer_norm(t4, [768], w, b)
//   t3 = ltorch.add(t4, t2)                           # row-major
//
// Calls whose result depends on the layout (random numbers, as_strided, operators without a record), or that refuse some
// (view), read the value as it was, and so does the caller: results of the program have eager's strides.
#pragma once

#include "core/trace.h"

namespace thunder {

/// Rewrites pointwise results that a row-wise operator (layer norm, RMS norm, softmax, linear) reads, where an operand of
/// the result's shape is row-major already, and permuted values that a GPU's pointwise operator broadcasts.
Trace row_major(const Trace& trace);

}  // namespace thunder
