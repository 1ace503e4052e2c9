// The first level of guards: what the compiler assumed about the flat inputs and about global state, as a row of words
// that is compared with memcmp.
//
//   Fingerprint f;
//   f.begin();                       // global state: grad and inference mode, autocast, default dtype, modes
//   for (...) f.add(tensor);         // dtype, device, keys, sizes, strides, requires_grad, alignment, aliases
//   f.add_number(hash_of_a_literal);
//   entries.find(f.hash()) ... entry.fingerprint == f
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace thunder {

class Fingerprint {
 public:
  Fingerprint();
  Fingerprint(const Fingerprint& other) : Fingerprint() { copy(other); }
  Fingerprint& operator=(const Fingerprint& other) {
    if (this != &other) copy(other);
    return *this;
  }
  ~Fingerprint();

  /// Starts over, with the global state.  An object that is reused keeps its buffer.
  void begin();
  /// The order of the tensors matters.  The tensors must live until the last add().
  void add(const at::Tensor& tensor);
  /// All but sizes and strides, and how far tensors that share memory lie apart.  `*repeated`: it is one that was added
  /// before.  False for a tensor without strides, which is to be taken as it is.
  bool add_kind(const at::Tensor& tensor, bool* repeated);
  void add_number(uint64_t value) {
    reserve(1);
    words_[size_++] = value;
  }
  uint64_t hash() const;
  friend bool operator==(const Fingerprint& a, const Fingerprint& b) {
    return a.size_ == b.size_ && std::memcmp(a.words_, b.words_, a.size_ * sizeof(uint64_t)) == 0;
  }

  /// Whether somebody sees the operators of this thread (runtime/watchers.h), but for forward-mode AD.
  bool watched() const { return watched_; }

  struct SeenTable;

  /// The words, to tell which part differs: first those of the global state.
  size_t size() const { return size_; }
  uint64_t word(size_t i) const { return words_[i]; }

 private:
  void copy(const Fingerprint& other);
  void reserve(size_t more) {
    if (size_ + more > capacity_) grow(more);
  }
  void grow(size_t more);
  uint64_t alias_class(const at::Tensor& tensor);
  void note_gpu(const c10::TensorImpl* impl);

  // A tensor seen before by its storage.
  struct Seen {
    const void* storage;
    const c10::TensorImpl* tensor;
    uint32_t index;
  };
  void take_table();

  static constexpr size_t kInline = 128;
  static constexpr size_t kInlineSeen = 16;
  uint64_t* words_;
  size_t size_ = 0, capacity_ = kInline;
  uint32_t tensors_ = 0;
  bool saw_gpu_ = false, watched_ = false;
  uint64_t filter_ = 0;  // a bit per hash of the storages in seen_
  Seen seen_[kInlineSeen];
  std::unique_ptr<SeenTable> more_seen_;
  uint64_t inline_[kInline];
};

/// What fingerprints of tensors that a function captured say, kept where it is cheap to ask whether anything changed:
/// while a tensor is the same object on the same storage as before, what it shares its memory with and how its memory
/// is aligned are the same as before too.  It is asked through memory that no step has left in the cache, so that it
/// reads as little as will do.
class CapturedTensors {
 public:
  CapturedTensors() = default;
  /// Python's tensors.
  explicit CapturedTensors(const std::vector<PyObject*>& tensors);
  /// The same tensors, on the same storages, with the same metadata.
  bool unchanged(const std::vector<PyObject*>& tensors) const;
  /// Whether one of them lies on the tensor's storage.
  bool shares_memory(const at::Tensor& tensor) const;
  /// Calls `add(address, bytes)` for the memory that unchanged() will read.
  void add_lines(const std::function<void(const void*, size_t)>& add) const;

 private:
  struct Item {
    PyObject* object;
    const void* type;  // of the object
    const c10::TensorImpl* impl;
    const void* storage;
    int64_t offset;
    uint32_t first, count;  // of its words
  };
  std::vector<Item> items_;
  std::vector<uint64_t> words_;
  std::vector<const void*> storages_;  // sorted
};

/// What the words of global state say, to name the guard that failed: "grad mode", "autocast", ...; empty if they are
/// equal.
std::string global_state_difference(const Fingerprint& a, const Fingerprint& b);

}  // namespace thunder
