// Which sizes, strides and numbers vary, with cache="varying values".
//
// The first program of a kind of call is for its numbers as they are.  A call that differs from an earlier one in
// numbers alone shows which of them vary: those are symbols in the next program, all others stay what they are.
#pragma once

#include <vector>

#include "jit/symbolic.h"

namespace thunder {

/// The place of a tensor's sizes and strides among the ints: `rank` sizes from `first` on, then as many strides.
struct TensorPlace {
  size_t first = 0, rank = 0;
};

struct Varying {
  std::vector<IntBinding> ints;
  std::vector<char> constant_floats;
  bool any = false;  ///< whether any is to be a symbol
};

/// `earlier`: the numbers of earlier calls that differ from this one in numbers alone.  `fixed`: of each int, whether it is not to be
/// a symbol though it varies.
Varying find_varying(const std::vector<const Numbers*>& earlier, const Numbers& now,
                     const std::vector<TensorPlace>& places, const std::vector<char>& fixed);

}  // namespace thunder
