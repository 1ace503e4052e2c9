// Mutation and aliasing, made functional.
//
// Every tensor object of the traced program has a TensorId.  Tensors that share memory belong to one storage: a base
// value and, for each tensor, the path of view primitives that leads to it from the base.
//
//   a = torch.zeros(4)      storage 0, path []
//   b = a[1:3]              storage 0, path [slice]
//   b.add_(1)               b's new value is computed, scattered back along the path: a new base value;
//   return a                a's value is derived again from the new base when it is next read
//
// A write through `detach()`, or under no_grad, changes data and leaves the gradient's way alone: prims.graft.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/builder.h"
#include "frontend/tensor_memory.h"

namespace thunder {
class Replay;
}

namespace thunder::frontend {

/// Follows values back to the one in whose memory they lie.
class MemoryOf {
 public:
  explicit MemoryOf(const std::vector<const Call*>& calls);
  Value operator()(Value v) const;

 private:
  std::unordered_map<Value, Value, ValueHash> same_;  // of a result, the operand in whose memory it lies
};

/// The view again, of another tensor.
Value replay_view(Builder& b, const Call* view, Value of);

class AliasTracker : public TensorMemory {
 public:
  explicit AliasTracker(Builder& builder) : b_(builder) {}

  /// A tensor from outside.  `leaf`: autograd forbids in-place writes to it where it requires grad.
  TensorId add_input(Value v, bool leaf);
  /// The tensor object for a result of `call`: the one whose value the call returned unchanged, a view of one of the
  /// arguments' tensors, or a new one.  `fresh` tells whether the id is new.
  TensorId add_result(Value v, const Call* call, bool* fresh);

  /// Another tensor object of the same memory, sizes and strides.
  TensorId add_alias(TensorId of);
  /// The same as a view, made in the builder's grad mode.
  Value viewed_whole(TensorId of);
  /// A view of the base of `t`'s storage, which these calls lead to.
  TensorId add_view(TensorId t, Value v, std::vector<const Call*> path);
  /// `of` seen through the views that lead from it to `t`, made so that gradients flow through them.
  TensorId with_gradient(TensorId t, TensorId of);

  /// The tensor's value now.
  Value value(TensorId t);
  /// What its attribute says: a view that was made under no_grad has it from its base, though no gradient flows.
  bool requires_grad(TensorId t);
  /// Writes `v` (of the tensor's shape and dtype) into the tensor.  `grad_enabled`: torch.is_grad_enabled() at the
  /// write.  Error (Runtime) where eager forbids it: a leaf that requires grad, an expanded tensor.
  void write(TensorId t, Value v, bool grad_enabled, const char* op);

  /// `t.data = source`: from here on `t` is `v` (the values of `source`, and the gradient of `t`) in the memory of
  /// `source`.  `source`, and what lies in the memory that `t` had if that is an input's, can only be read any more.
  void take_memory(TensorId t, Value v, TensorId source);

  /// From here on the tensor is `v`, the same data; others that share its memory are what they were.
  void rename(TensorId t, Value v) {
    tensors_[t].current = v;
    owner_[v] = t;
  }

  /// What is known now of the tensors that there are.
  struct Checkpoint;
  Checkpoint checkpoint() const;
  /// Forgets what was derived since then for tensors that were there.  False if one of them was written to.
  bool restore(const Checkpoint& before);

  /// Moves the tensors that were added after the checkpoint `since` to the replayed calls (passes/replay.h): each
  /// tensor gets the value and the path of views that the replay made.  `same`: pairs of an added tensor that owns its
  /// memory, and the tensor with which it is identified.
  void replay(const Checkpoint& since, const Replay& calls, const std::vector<std::pair<TensorId, TensorId>>& same);

 private:
  Value unview(const Call* view, Value base, Value written, const char* op);
  Value again(const Call* view, Value of);
  Value with_strides(Value v, const TensorType& like);
  TensorId add(Tensor t);

  Builder& b_;
};

struct AliasTracker::Checkpoint {
  std::vector<Storage> storages;
  std::vector<Tensor> tensors;
};

}  // namespace thunder::frontend
