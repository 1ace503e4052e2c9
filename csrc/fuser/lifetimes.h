// How long values of a program are needed: part of partitioning (partition.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace.h"
#include "passes/visit.h"

namespace thunder::fuser {

class Lifetimes {
 public:
  /// Of what `calls` make and read, by their places.
  Lifetimes(const std::vector<const Call*>& calls, const Arg& output);

  /// Whether a sum of `operands` that is read at `reader` should be made where it stands: it is small, and to make it at
  /// its reader would keep a large operand that is needed no longer.
  bool keeps_more(Value sum, const std::vector<Value>& operands, int reader) const;

 private:
  ValueMap<int> last_{-1};  // the last call that reads a value
  ValueSet lasting_;        // what the program is given, or gives
};

}  // namespace thunder::fuser
