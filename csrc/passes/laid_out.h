// Values in another layout, for passes that choose one: what stands for a value from here on, calls over it, and the
// value as it was where a reader, or the caller, needs that.
#pragma once

#include <string_view>
#include <vector>

#include "passes/rewriter.h"
#include "passes/visit.h"

namespace thunder {

class LaidOut {
 public:
  explicit LaidOut(const Trace& trace) : rewriter(trace), trace_(trace) {}

  Rewriter rewriter;

  /// From here on `now`, of the same shape and dtype, stands for `before`.
  void lay_out(Value before, Value now) { now_.set(before, now); }
  /// What stands for the value; empty where it is as it was.
  Value now(Value v) const { return now_[v]; }
  bool reads_any(const Call& call) const;
  /// A copy in these strides.
  Value restrided(Value v, const Dims& strides) { return rewriter.builder("prims.restride", v, strides).value(); }
  /// The value with the strides that it had, which is itself where they are the same.
  Arg as_it_was(Value v);
  /// Within collect(): the call over what its inputs are now, whose results stand for its own.  Not `indifferent`: over
  /// its inputs as they were.
  void again(const Call& call, bool indifferent);
  /// How often a value was needed as it was, of values with as many dimensions.
  size_t restored(size_t rank) const { return rank < restored_.size() ? restored_[rank] : 0; }
  /// The trace of what the builder has collected, which gives values as they were.
  Trace finish();

 private:
  const Trace& trace_;
  ValueMap<Value> now_;
  std::vector<size_t> restored_;
};

/// Whether shape and strides are numbers.
bool has_known_layout(const TensorType& t);
/// Whether these are the strides, but for those of dimensions of one element, which are never used.
bool lies_so(const TensorType& t, const Dims& strides);
/// Whether the layout is known, and holds each element once and without gaps, but not by rows.
bool is_permuted(const TensorType& t);
/// Whether values alone, not where they lie, make the results: pointwise operators, views of any layout, and reshape,
/// which copies where it has to.  Calls with effects, and operators of executors, are not.
bool is_indifferent(const Call& call);

}  // namespace thunder
