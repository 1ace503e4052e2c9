// What the passes that pad matrix products share: sizes, the parts of padded tensors, and what copies cost.
#pragma once

#include <cstdint>
#include <vector>

#include "core/builder.h"
#include "passes/visit.h"

namespace thunder {

/// What decides where padding is worth it, in seconds.  Those of an H200; their ratios are other GPUs', too.
struct AlignmentCosts {
  double operation = 1 / 200e12 - 1 / 700e12;  ///< what a product of unaligned sizes loses
  double batch_byte = 1 / 1.2e12 - 1 / 3e12;   ///< the same, of each byte of a batch of small ones
  double byte = 1 / 4e12;                      ///< read or written by a copy
  double launch = 5e-6;
};

bool is_constant(const TensorType& t);
double bytes(const TensorType& t);
bool is_16_bit(DType t);

/// Zeros behind the last element of a dimension, whose result is as the sizes say.
Expr padded_to(Builder& b, Value v, const std::vector<int64_t>& sizes);
/// The part of a wider result that is `out`, in its layout.
Arg narrowed(const Expr& wide, const TensorType& out);

/// What makes the values of a trace while it is rewritten.
class ValueMakers {
 public:
  void add(const Call& call) {
    visit_outputs(call, [&](Value v) { makers_.set(v, &call); });
  }
  const Call* maker(Value v) const { return makers_[v]; }
  /// The first tensor of a chain of views that ends in the value.
  Value behind_views(Value v) const;
  /// Whether a kernel computes the value, which then writes it in any layout and padded.
  bool is_computed(Value v) const;

 private:
  ValueMap<const Call*> makers_{nullptr};
};

/// Without what nothing reads any more: what led to it would be saved for the backward all the same.  `boundary`: a
/// number of calls at the trace's begin, as many as they are then.
Trace without_dead_code(const Trace& trace, size_t& boundary);

double seconds_of_copy(const TensorType& t, const AlignmentCosts& costs);

}  // namespace thunder
