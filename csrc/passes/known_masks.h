// Known masks: attention with a mask that depends on no input is told what the mask is.
//
// Libraries make masks of aranges and comparisons.  Kernels for causal attention, and for attention without a mask, are
// faster than those that read one, and skip what is masked.
//
// Precondition: attention is whole, and no gradient has been taken of it.
//
//   i = ltorch.arange(5)[:, None]
//   m = ltorch.ge(i, ltorch.arange(5))
//   t0 = ltorch.scaled_dot_product_attention(q, k, v, m)
//     -->
//   t0 = ltorch.scaled_dot_product_attention(q, k, v, None, 0.0, True)
//
// What no one else reads of the mask is dead code afterwards.
#pragma once

#include <cstdint>
#include <functional>

#include "core/trace.h"

namespace thunder {

enum class MaskKind : uint8_t {
  Other,
  Full,    ///< no place is masked
  Causal,  ///< row i sees the columns 0 to i
};

/// Says what the result of a trace without inputs is: a mask of booleans, true where a place is seen, or of numbers
/// that are added to scores.
using ClassifyMask = std::function<MaskKind(const Trace&)>;

Trace known_masks(const Trace& trace, const ClassifyMask& classify);

}  // namespace thunder
