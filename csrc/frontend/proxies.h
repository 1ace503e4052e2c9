// Proxies: the Python objects that stand for the tensors of the program, wrapper subclasses of torch.Tensor with the
// right metadata and no data.
//
// Owns the table from objects to tensors and back.  Calls the acquisition and the layouts.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "frontend/acquisition.h"
#include "frontend/layouts.h"

namespace thunder::frontend {

/// An object that stands for no tensor yet.
Ref new_proxy(const TensorType& t);

class Proxies {
 public:
  Proxies(Acquisition& acquisition, Layouts& layouts)
      : acquisition_(acquisition), aliases_(acquisition.aliases()), layouts_(layouts) {}

  /// Whether the object takes part in this trace.
  bool knows(PyObject* tensor) const { return ids_.count(tensor) != 0; }
  std::optional<TensorId> find(PyObject* tensor) const;
  /// The tensor's object.
  const Ref& object(TensorId t) const { return objects_.at(t); }
  /// The object is the tensor's from here on.
  void bind(PyObject* object, TensorId t);
  /// Another object is that tensor, too.
  void set_id(PyObject* object, TensorId t) { ids_[object] = t; }
  /// The object is that of another tensor, `before`, no more, but of `t`, whose type it takes.
  void rebind(PyObject* object, TensorId before, TensorId t);

  /// A new object for the tensor.
  Ref add(TensorId t);
  /// An object for a tensor of the same memory, sizes and strides.
  Ref add_alias(TensorId of);
  /// What operators do with an argument that they need not change.
  enum class Unchanged { Returned, Viewed };
  static Unchanged unchanged_by(const std::string& op);
  /// The object of a result; a traced number for a number.  `first`: the call's first argument, or null.
  Ref wrap(Value v, const Call* call, Unchanged unchanged = Unchanged::Returned, PyObject* first = nullptr);

 private:
  Acquisition& acquisition_;
  AliasTracker& aliases_;
  Layouts& layouts_;
  std::unordered_map<PyObject*, TensorId> ids_;
  std::unordered_map<TensorId, Ref> objects_;
};

}  // namespace thunder::frontend
