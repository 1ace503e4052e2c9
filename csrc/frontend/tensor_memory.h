// Which tensors of the traced program share memory, and what PyTorch takes each of them for: what AliasTracker
// (alias.h), which makes the calls, knows.
#pragma once

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/trace.h"

namespace thunder::frontend {

using TensorId = uint32_t;

/// The tensor that a view primitive views.
Value viewed(const Call* view);
/// Whether a path of views leaves autograd's graph: through detach(), or the bytes as another dtype.
bool leaves_graph(const std::vector<const Call*>& path);

constexpr const char* kNoGradView =
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled.";

class TensorMemory {
 public:
  /// The tensor that a value is the current value of.
  std::optional<TensorId> owner(Value v) const {
    const auto at = owner_.find(v);
    return at == owner_.end() ? std::nullopt : std::optional(at->second);
  }
  /// Whether a storage's base is a value that was made inside a call, which the program may now read.
  bool has_hidden() const { return has_hidden_; }

  uint32_t storage(TensorId t) const { return tensors_[t].storage; }
  Value base(TensorId t) const { return storage_of(t).base; }
  /// View primitives from the storage's base to the tensor.
  const std::vector<const Call*>& path(TensorId t) const { return tensors_[t].path; }
  /// The input that is the base of the tensor's storage, if the storage came from outside.
  std::optional<TensorId> base_input(TensorId t) const { return storage_of(t).input; }
  /// Whether no other tensor lies in its memory, whole or in part.
  bool owns_memory(TensorId t) const;
  bool share_memory(TensorId a, TensorId b) const { return tensors_[a].storage == tensors_[b].storage; }
  /// Whether the same views of one memory lead to both.
  bool same_elements(TensorId a, TensorId b) const;
  /// Whether it lies in memory that AliasTracker::take_memory() gave to another tensor, or took from it.
  bool given_away(TensorId t) const { return storage_of(t).given_away; }
  /// Whether an input lies in other memory than it came in.
  bool moved(TensorId t) const { return storage_of(t).moved; }

  /// Whether any tensor of the same storage was written to.
  bool written(TensorId t) const { return storage_of(t).generation > 0; }
  /// Whether any tensor was.
  bool any_written() const {
    return std::any_of(storages_.begin(), storages_.end(), [](const Storage& s) { return s.generation > 0; });
  }
  /// Marks a tensor that the program read by `.data`: a write through this tensor is no new version of its memory.
  void set_uncounted(TensorId t) { tensors_[t].uncounted = true; }
  /// Whether all writes to the tensor's memory went through uncounted tensors, so that autograd sees none of them.
  bool uncounted(TensorId t) const { return storage_of(t).uncounted; }
  /// Whether all writes to the tensor's memory left autograd's graph alone (no_grad, detach()), though the storage
  /// requires grad.
  bool data_only(TensorId t) const { return storage_of(t).data_only; }

  bool is_input(TensorId t) const { return tensors_[t].input; }
  /// Whether it is another object than the base of its storage, though its path is empty.
  bool is_alias(TensorId t) const { return tensors_[t].alias; }
  /// Whether PyTorch takes it for a view of another tensor; what detach() returns is none.
  bool is_view(TensorId t) const;
  /// The tensor `t` from here on, an object that has changed its sizes, is as much a view as `before` was.
  void inherit_view(TensorId t, TensorId before) {
    tensors_[t].view = is_view(before);
    tensors_[t].no_grad = tensors_[before].no_grad;
  }
  /// Whether it is the conjugate of what lies in memory, as far as the program made it so.
  bool is_conj(TensorId t) const;
  /// From here on autograd forbids in-place writes to it and, if it is no view, to views of it.
  void make_leaf(TensorId t);
  /// Error (Runtime) where eager forbids any write to the tensor: a leaf that requires grad, or a view of one.
  void check_leaf(TensorId t, bool grad_enabled, const char* op) const;

 protected:
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

  const Storage& storage_of(TensorId t) const { return storages_[tensors_[t].storage]; }

  bool has_hidden_ = false;
  std::vector<Storage> storages_;
  std::vector<Tensor> tensors_;
  std::unordered_map<Value, TensorId, ValueHash> owner_;  // the tensor that a value is the current value of
};

}  // namespace thunder::frontend
