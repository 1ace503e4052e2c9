// Known masks: attention with a mask that depends on no input but fixed ones is told what the mask is.
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
// Of a window of columns around the diagonal,
//
//   t0 = ltorch.windowed_attention(q, k, v, 2, 0)
//
// where an executor takes that.  A `where` whose condition is known to hold everywhere is replaced by its first value:
//
//   m = ltorch.where(ltorch.ge(ltorch.arange(5), 0), bias, float('-inf'))      ->      bias
//
// What no one else reads of the mask is dead code afterwards.
//
// The elements of a module's buffer are known as well, where the program does not write to it: a guard asks whether the
// buffer has been written to since.
//
// A mask of symbolic sizes is classified for the sizes of the call being compiled.  A guard makes the mask for other sizes
// and checks that its kind is the same.
#pragma once

#include <cstdint>
#include <functional>

#include "core/trace.h"
#include "passes/executor.h"

namespace thunder {

enum class MaskKind : uint8_t {
  Other,
  Full,    ///< no place is masked
  Causal,  ///< row i sees the columns 0 to i
  Window,  ///< row i sees the columns from i - left to i + right, counted from the last row and column
};

struct KnownMask {
  KnownMask(MaskKind k, int64_t l = -1, int64_t r = -1) : kind(k), left(l), right(r) {}
  MaskKind kind;
  bool rows_see = true;  ///< each row sees a place: its greatest number is not far from zero
  int64_t left, right;   ///< of a window; -1: all on that side
};

/// How masks are told apart.  A mask is the result of a trace whose inputs are numbers that bind symbols, and fixed
/// tensors: booleans, true where a place is seen, or numbers that are added to scores.
struct MaskReader {
  /// What it is for the symbols' hints.
  std::function<KnownMask(const Trace&)> classify;
  /// From here on the program runs only where the mask is that; null: masks of symbolic sizes stay.
  std::function<void(const Trace&, const KnownMask&)> guard;
  /// Tells whether the compiler may read an input's elements.  Null: it may read none.
  std::function<bool(Value)> is_fixed = nullptr;
};

/// `executors`: those that may take a window.
Trace known_masks(const Trace& trace, const MaskReader& reader, const ExecutorList& executors = {});

}  // namespace thunder
