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

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/builder.h"

namespace thunder {
class Replay;
}

namespace thunder::frontend {

using TensorId = uint32_t;

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

class AliasTracker {
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
  /// The tensor that a value is the current value of.
  std::optional<TensorId> owner(Value v) const {
    const auto at = owner_.find(v);
    return at == owner_.end() ? std::nullopt : std::optional(at->second);
  }
  /// A view of the base of `t`'s storage, which these calls lead to.
  TensorId add_view(TensorId t, Value v, std::vector<const Call*> path);
  /// `of` seen through the views that lead from it to `t`, made so that gradients flow through them.
  TensorId with_gradient(TensorId t, TensorId of);

  /// The tensor's value now.
  Value value(TensorId t);
  /// Error (Runtime) where eager forbids any write to the tensor: a leaf that requires grad, or a view of one.
  void check_leaf(TensorId t, bool grad_enabled, const char* op) const;
  /// Writes `v` (of the tensor's shape and dtype) into the tensor.  `grad_enabled`: torch.is_grad_enabled() at the
  /// write.  Error (Runtime) where eager forbids it: a leaf that requires grad, an expanded tensor.
  void write(TensorId t, Value v, bool grad_enabled, const char* op);

  /// `t.data = source`: from here on `t` is `v` (the values of `source`, and the gradient of `t`) in the memory of
  /// `source`.  `source`, and what lies in the memory that `t` had if that is an input's, can only be read any more.
  void take_memory(TensorId t, Value v, TensorId source);
  /// Whether it lies in memory that take_memory() gave to another tensor, or took from it.
  bool given_away(TensorId t) const { return storages_[tensors_[t].storage].given_away; }
  /// Whether an input lies in other memory than it came in.
  bool moved(TensorId t) const { return storages_[tensors_[t].storage].moved; }

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

  /// Whether a storage's base is a value that was made inside a call, which the program may now read.
  bool has_hidden() const { return has_hidden_; }
  bool is_input(TensorId t) const { return tensors_[t].input; }
  /// Whether it is another object than the base of its storage, though its path is empty.
  bool is_alias(TensorId t) const { return tensors_[t].alias; }
  /// Marks a tensor that the program read by `.data`: a write through this tensor is no new version of its memory.
  void set_uncounted(TensorId t) { tensors_[t].uncounted = true; }
  /// Whether all writes to the tensor's memory went through uncounted tensors, so that autograd sees none of them.
  bool uncounted(TensorId t) const { return storages_[tensors_[t].storage].uncounted; }
  /// Whether all writes to the tensor's memory left autograd's graph alone (no_grad, detach()), though the storage
  /// requires grad.
  bool data_only(TensorId t) const { return storages_[tensors_[t].storage].data_only; }
  /// Whether any tensor of the same storage was written to.
  bool written(TensorId t) const { return storages_[tensors_[t].storage].generation > 0; }
  /// Whether any tensor was.
  bool any_written() const {
    return std::any_of(storages_.begin(), storages_.end(), [](const Storage& s) { return s.generation > 0; });
  }
  /// Whether no other tensor lies in its memory, whole or in part.
  bool owns_memory(TensorId t) const;
  bool share_memory(TensorId a, TensorId b) const { return tensors_[a].storage == tensors_[b].storage; }
  /// Whether the same views of one memory lead to both.
  bool same_elements(TensorId a, TensorId b) const;
  /// Whether PyTorch takes it for a view of another tensor; what detach() returns is none.
  bool is_view(TensorId t) const;
  /// The tensor `t` from here on, an object that has changed its sizes, is as much a view as `before` was.
  void inherit_view(TensorId t, TensorId before) {
    tensors_[t].view = is_view(before);
    tensors_[t].no_grad = tensors_[before].no_grad;
  }
  /// From here on autograd forbids in-place writes to it and, if it is no view, to views of it.
  void make_leaf(TensorId t);
  /// What its attribute says: a view that was made under no_grad has it from its base, though no gradient flows.
  bool requires_grad(TensorId t);
  /// Whether it is the conjugate of what lies in memory, as far as the program made it so.
  bool is_conj(TensorId t) const;
  /// View primitives from the storage's base to the tensor.
  const std::vector<const Call*>& path(TensorId t) const { return tensors_[t].path; }
  /// The input that is the base of the tensor's storage, if the storage came from outside.
  std::optional<TensorId> base_input(TensorId t) const { return storages_[tensors_[t].storage].input; }
  uint32_t storage(TensorId t) const { return tensors_[t].storage; }
  Value base(TensorId t) const { return storages_[tensors_[t].storage].base; }

 private:
  struct Storage {
    Value base;
    uint32_t generation = 0;
    std::optional<TensorId> input;
    bool leaf = false;
    bool data_only = false;
    bool uncounted = false;            // all writes to it were
    bool made_leaf = false;            // what stands for the base, which itself does not require grad
    bool given_away = false;           // to another storage, or by it
    bool moved = false;                // it has taken the memory of another
    std::optional<uint32_t> now = {};  // the storage that has taken its memory
  };
  struct Tensor {
    uint32_t storage = 0;
    std::vector<const Call*> path;
    Value current;
    uint32_t generation = 0;
    bool input = false;
    bool alias = false;
    bool made_leaf = false;         // by requires_grad_()
    bool no_grad = false;           // made under no_grad
    bool uncounted = false;         // its writes do not count as versions of the memory: from .data
    std::optional<bool> view = {};  // what PyTorch takes it for, if the path does not tell
  };

  Value unview(const Call* view, Value base, Value written, const char* op);
  Value again(const Call* view, Value of);
  Value with_strides(Value v, const TensorType& like);
  TensorId add(Tensor t);

  Builder& b_;
  bool has_hidden_ = false;
  std::vector<Storage> storages_;
  std::vector<Tensor> tensors_;
  std::unordered_map<Value, TensorId, ValueHash> owner_;  // the tensor that a value is the current value of
};

struct AliasTracker::Checkpoint {
  std::vector<Storage> storages;
  std::vector<Tensor> tensors;
};

}  // namespace thunder::frontend
