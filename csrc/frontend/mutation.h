// What the program does to a tensor in place: writes to its values, and changes of the tensor object itself (its sizes,
// whether it is a leaf).
//
// Owns what must not be written to; the values are the alias tracker's.  Calls the tensors and the strided views.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>

#include "frontend/acquisition.h"
#include "frontend/inputs.h"
#include "frontend/proxies.h"
#include "frontend/strided.h"
#include "frontend/tensors.h"

namespace thunder::frontend {

class Mutation {
 public:
  Mutation(Acquisition& acquisition, Proxies& proxies, Inputs& inputs, Tensors& tensors, StridedViews& strided)
      : acquisition_(acquisition),
        b_(acquisition.builder()),
        aliases_(acquisition.aliases()),
        proxies_(proxies),
        inputs_(inputs),
        tensors_(tensors),
        strided_(strided) {}

  /// Error (Runtime) where autograd forbids any write to it.
  void check_writable(PyObject* tensor, const char* op);
  /// From here on only eager says whether the tensor and its views may be written to, where gradients are recorded.
  void forbid_writes(PyObject* tensor) { unwritable_.insert(aliases_.storage(tensors_.id_of(tensor))); }
  /// Writes `value` (cast to it) into `tensor`.
  void write(PyObject* tensor, const Arg& value, const char* op);
  /// What the in-place form of an operator gave: `call`'s result.
  void write_result(PyObject* tensor, const Arg& result, const Call* call, const std::string& op);
  /// `target.copy_(source)`: broadcasts and casts.
  void copy_into(PyObject* target, PyObject* source, const char* op);
  /// Writes results into what was given as out=, one tensor or several.
  void write_out(PyObject* out, const Arg& result, const std::string& op);
  /// Error (Runtime) where something that requires grad is among what a call with out= reads or writes.
  static void check_out_gradient(const std::string& op);
  /// Error (Runtime) where a result is of another shape than what it is written to.
  void check_same_shape(PyObject* target, const Arg& result, const std::string& op);

  /// `tensor.requires_grad_()` of one that does not.
  void require_grad(PyObject* tensor);
  /// Whether a tensor that requires grad is one that the program made a leaf; nothing for one from outside.
  std::optional<bool> made_leaf(PyObject* tensor);
  /// `target.data = source`.  Error (NotImplemented) where what both were could be told from what they are.
  void set_data(PyObject* target, PyObject* source);
  /// `tensor.detach_()`.
  void detach_in_place(PyObject* tensor);
  /// The tensor object is what `other` is from here on.  `op`: for the error, which says that an input cannot.
  void become(PyObject* tensor, PyObject* other, const char* op);

 private:
  void check_unwritable(TensorId id);
  void require_grad_outside(PyObject* tensor);
  bool changes_metadata(PyObject* written, const Arg& result, const Call* call, const std::string& op);
  void resize_for(PyObject* out, const Arg& result, const std::string& op);
  void rebind(PyObject* object, TensorId id, const char* op);

  Acquisition& acquisition_;
  Builder& b_;
  AliasTracker& aliases_;
  Proxies& proxies_;
  Inputs& inputs_;
  Tensors& tensors_;
  StridedViews& strided_;
  std::unordered_set<uint32_t> unwritable_;  // storages
};

}  // namespace thunder::frontend
