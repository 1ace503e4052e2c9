// Values of tensors that a program asked for while it was acquired: `if t.any():`, t.item(), the length of a nonzero().
//
// The calls that lead to the value are run at once, on the inputs of the call that is being compiled, and the program
// goes on with the answer.  What was asked and answered is a part of what the compiled program assumes: later calls ask
// again before they run it (jit/value_checks.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/number.h"
#include "core/trace.h"
#include "python/ref.h"

namespace thunder::frontend {

struct ValueRead {
  std::vector<const Call*> calls;  ///< that compute it, in order; without those that earlier reads ran
  std::vector<Device> draws;       ///< from whose generators the calls draw
  std::vector<Ref> generators;     ///< Python's and NumPy's from which they draw
  std::function<void()> undo;      ///< makes all of these what they were; null: nothing was drawn
  Value value;                     ///< a tensor or a number
  Ref answer;                      ///< what it is in this call: a real tensor, or a Python number
  /// Whether the program holds for this answer alone.  If not, the number stands in the program as a symbol or a float
  /// of the call, and what the program asked of it is a guard.
  bool exact = true;
  std::optional<SymbolId> symbol;
  std::optional<size_t> input;               ///< of NumberExpr::input
  int64_t least = 0;                         ///< what a symbol stands for is not below
  size_t dim_guards = 0, number_guards = 0;  ///< how many guards there were before
  std::string what, where;                   ///< "item", the user's line
  std::string place;                         ///< the line, and how often it had asked before: the same in other calls
};

/// An input of the program as it is in the call that is being compiled.
struct RealInput {
  Ref object;                  ///< a tensor or a number
  bool whole_storage = false;  ///< not the tensor but its memory, as a 1-d tensor
};

}  // namespace thunder::frontend
