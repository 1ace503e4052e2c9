// Which tensor of the program a Python object is.  Tensors from outside (arguments, and what the program meets on its
// way: parameters, buffers, tensors of closures) become inputs here.
//
// Owns what is known of memory that several inputs share, and of arguments that the program meets outside, too.  Calls
// the proxies and the inputs.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/inputs.h"
#include "frontend/proxies.h"

namespace thunder::frontend {

class Tensors {
 public:
  /// `shared`: memory (as Hooks::storage_of names it) that several inputs share and the program writes to.
  /// `begin`: arguments that begin to require a gradient where the program says so.
  Tensors(Acquisition& acquisition, Proxies& proxies, Inputs& inputs, const std::vector<const void*>& shared,
          std::unordered_set<size_t> begin);

  /// A proxy for the i-th tensor argument; the same tensor passed twice gets the same proxy.
  /// `type`: with symbolic sizes; null: the tensor's own.
  Ref add_argument(PyObject* tensor, size_t index, const TensorType* type = nullptr);
  /// Makes a tensor that the program can reach (a parameter, a buffer) an input; unused ones are dropped at the end.
  void add_captured(PyObject* tensor);
  /// A proxy for a value of the borrowed builder; a traced number for a number.
  Ref add_value(Value v);
  /// Metadata only: a tensor of this type.
  Ref new_tensor(TensorType t);
  /// Whether a tensor given by add_value() was written to.
  bool wrote_to_values() const;
  /// Makes an input of `real`, which `object` stands for.
  TensorId add_input(PyObject* object, PyObject* real, InputSource source, const TensorType* type = nullptr);

  TensorId id_of(PyObject* tensor);
  Value value_of(PyObject* tensor) { return aliases_.value(id_of(tensor)); }
  /// The value's type now, which in-place writes may have changed since the object was made.
  TensorType type_of(PyObject* tensor) { return value_of(tensor).tensor(); }
  /// The argument that a Python object stands for.
  Arg convert(PyObject* o);
  /// Whether a proxy stands for a tensor that the program met outside.
  bool is_same(PyObject* proxy, PyObject* real);

  /// Whether it is an input, or a part of one.
  bool is_outside(TensorId t) const { return aliases_.is_input(t) || is_in_shared_memory(t); }
  /// Whether it is an input, too, though its memory stands for it.
  bool is_in_shared_memory(TensorId t) const { return views_of_shared_.count(t) != 0; }
  /// Whether it is the caller's own tensor, or one that the program met outside, as it is there.
  bool is_plain_input(TensorId t) const;
  /// The input of which a tensor consists; Input::kNumber if it is computed.  A view of shared memory, which the program
  /// returns, becomes an input for that alone, which the epilogue passes on.
  TensorId input_itself(TensorId t);
  /// Arguments that the program also met outside of them, and what it asked whether an argument is.
  std::vector<Ref> arguments_outside() const;

  /// Memory that the program wrote to though several inputs share it: tracing has to start again with it in `shared`.
  const void* shared_memory_written() const { return shared_memory_written_; }
  /// Ends this acquisition, as the inputs in this memory have to be views of one.
  [[noreturn]] void share(const void* memory, const char* op);
  /// Whether an input lies in the memory of another one.
  bool shares_memory(TensorId input) const { return aliased_.count(input) != 0; }
  /// Before a write to what lies in an input: other inputs must not see it.
  void check_unshared(TensorId input, const char* op);

  /// Whether it is an argument that begins to require a gradient.
  bool is_beginner(TensorId t) const;
  /// Ends this acquisition, as the argument has to be one from the start.
  [[noreturn]] void begin_to_require_grad(TensorId argument);
  /// An argument that is to begin to require a gradient: tracing has to start again with it in `begin`.
  std::optional<size_t> begins_to_require_grad() const { return new_beginner_; }

  /// What a function under torch.vmap computes for a sample: nothing in the program makes it.
  void note_sample(Value v) { samples_.insert(v.id()); }

 private:
  std::optional<TensorId> add_sharded(PyObject* tensor);
  TensorId add_view_of_shared(PyObject* real, InputSource source, const void* memory);

  Acquisition& acquisition_;
  Builder& b_;
  AliasTracker& aliases_;
  Proxies& proxies_;
  Inputs& inputs_;
  std::unordered_set<PyObject*> arguments_, met_outside_;
  std::unordered_map<PyObject*, Ref> compared_;         // tensors from outside that arguments may be
  std::vector<TensorId> values_;                        // given by add_value()
  std::unordered_map<const void*, TensorId> storages_;  // of the inputs
  std::unordered_map<const void*, TensorId> shared_;    // given to the constructor, and the input that stands for it
  std::unordered_map<TensorId, const void*> aliased_;   // inputs that share memory with another input
  std::unordered_map<TensorId, InputSource> views_of_shared_;
  const void* shared_memory_written_ = nullptr;
  const std::unordered_set<size_t> beginners_;  // given to the constructor
  std::optional<size_t> new_beginner_;
  std::unordered_set<ValueId> samples_;
};

}  // namespace thunder::frontend
