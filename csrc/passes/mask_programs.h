// Masks of attention as programs of their own: what a mask is, where the compiler can make it.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "core/trace.h"
#include "passes/known_masks.h"
#include "passes/visit.h"

namespace thunder {

/// The calls of a trace whose results depend on sizes, constants and fixed tensors alone, and what they make.
class MaskPrograms {
 public:
  MaskPrograms(const Trace& trace, const MaskReader& reader);

  /// Calls are told of in the order in which they run.
  void note(const Call& call);
  /// Whether the compiler can make it.
  bool is_known(Value v) const { return makers_[v] || given_[v]; }
  /// What a known mask is; Other for a mask that nobody may look at.
  const KnownMask& kind(Value mask);
  /// From here on the program runs only where that is so.
  void depend_on(Value mask, const KnownMask& known);

 private:
  const Trace& program_of(Value mask);

  const Trace& trace_;
  const MaskReader& reader_;
  ValueSet given_;                // inputs: numbers that bind symbols of the call, fixed tensors
  ValueMap<const Call*> makers_;  // of what is known
  std::unordered_map<ValueId, Trace> programs_;
  std::unordered_map<ValueId, KnownMask> known_;
  std::unordered_set<ValueId> guarded_;
};

}  // namespace thunder
