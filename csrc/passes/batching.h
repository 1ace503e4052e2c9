// A program for one sample as a program for a batch of them: what torch.vmap means.
//
// Each value that depends on a sample becomes one with a dimension more, in front.  Primitives have rules: pointwise ones,
// those that move elements (views by the index maps of their records), reductions, products, convolutions and indices; a
// composite is batched by its body.  What depends on no sample stays as it is.
//
//   t1 = prims.sum(x, [0])           # x: f32[4]         t1 = prims.sum(X, [1])          # X: f32[7, 4]
//   t2 = prims.mul(t1, w)            # w: f32[]     -->  w1 = prims.broadcast_in_dim(w, [7], [])
//                                                        t2 = prims.mul(t1, w1)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/builder.h"
#include "passes/visit.h"

namespace thunder {

/// Of a batch.
TensorType sample_of(const TensorType& batch);

class Batching {
 public:
  /// Whether samples draw random numbers: no, each its own, or all the same.
  enum class Randomness { Refused, Different, Same };
  /// Calls go to the builder; `size`: of the batch.
  Batching(Builder& b, Dim size, Randomness randomness = Randomness::Refused)
      : b_(b), size_(std::move(size)), randomness_(randomness) {}
  /// A sample, and the batch that stands for it.
  void set(Value sample, const Arg& batch) { batches_.set(sample, batch); }
  /// Calls that do to the batch what this one does to a sample.  False if there is no rule for that: the program has to
  /// be run otherwise.
  bool put(const Call& call);
  /// The operator for which there was none; null before put() returned false.
  const Op* unknown() const { return unknown_; }
  /// What stands for a value; itself if it depends on no sample.
  Arg now(Value v) const { return is_batch(v) ? batches_[v] : Arg(v); }
  bool is_batch(Value v) const { return !batches_[v].is_none(); }
  /// A tensor of the batch's size in any case.
  Expr whole(Value v);

 private:
  // Rules, which give None for a call that they are not for.
  using RuleOf = Arg (Batching::*)(const Call&);
  bool put_call(const Call& call);
  bool put_by(RuleOf rule, const Call& call);
  Arg batched(const Call& call);
  Arg moved(const Call& call);
  Arg mapped(const Call& call);
  Arg in_batch(const Param& param, const Args& a, int64_t rank) const;
  std::optional<ArgList> in_batch(const Call& call);
  Arg reduced(const Call& call);
  bool put_shared(const Call& call);
  Arg drawn(const Call& call);
  Arg in_windows(const Call& call);
  Arg along_dim(const Call& call);
  Arg indexed(const Call& call);
  Arg narrow_at(const Call& call);
  Arg linear(const Args& a);
  Arg matmul(const Args& a);
  Arg convolution(const Args& a, const Dims& out);
  Arg convolution_backward(const Args& a);
  Arg take(Value x, Value i, int64_t dim);
  Arg write_slices(const Call& call);
  Arg index(const Args& a, bool puts);

  // The batch as more of what a sample's first dimension counts.
  Expr in_rows(Value v);
  Expr from_rows(const Expr& x, const Dim& rows);
  // The batch as more channels: dimension 1.
  Expr in_channels(Value v);
  Expr from_channels(const Expr& x, const Dim& channels);
  Expr index_along(Value index, int64_t dim, const Dims& shape);
  Expr bias_for(Value bias, const Dims& shape);

  Builder& b_;
  const Dim size_;
  const Randomness randomness_;
  const Op* unknown_ = nullptr;
  ValueMap<Arg> batches_;
};

}  // namespace thunder
