// A program for one sample as a program for a batch of them: what torch.vmap means.
//
// Each value that depends on a sample becomes one with a dimension more, in front.  Primitives have rules: pointwise ones,
// those that move elements, reductions and products; a composite is batched by its body.  What depends on no
// sample stays as it is.
//
//   t1 = prims.sum(x, [0])           # x: f32[4]         t1 = prims.sum(X, [1])          # X: f32[7, 4]
//   t2 = prims.mul(t1, w)            # w: f32[]     -->  w1 = prims.broadcast_in_dim(w, [7], [])
//                                                        t2 = prims.mul(t1, w1)
#pragma once

#include <string>
#include <vector>

#include "core/builder.h"
#include "passes/visit.h"

namespace thunder {

class Batching {
 public:
  /// Calls go to the builder; `size`: of the batch.
  Batching(Builder& b, Dim size) : b_(b), size_(std::move(size)) {}
  /// A sample, and the batch that stands for it.
  void set(Value sample, const Arg& batch) { batches_.set(sample, batch); }
  /// Calls that do to the batch what this one does to a sample.  False if there is no rule for that: the program has to
  /// be run otherwise.
  bool put(const Call& call);
  /// What stands for a value; itself if it depends on no sample.
  Arg now(Value v) const { return is_batch(v) ? batches_[v] : Arg(v); }
  bool is_batch(Value v) const { return !batches_[v].is_none(); }
  /// A tensor of the batch's size in any case.
  Expr whole(Value v);

 private:
  bool put_primitive(const Call& call);
  Arg batched(const Call& call, bool& known);
  Arg linear(const Args& a);

  Builder& b_;
  const Dim size_;
  ValueMap<Arg> batches_;
};

}  // namespace thunder
