// The structure of Python arguments and results: nested containers with tensors at the leaves.
#pragma once

#include <functional>

#include <string>
#include <vector>

#include "frontend/python.h"

namespace thunder::frontend {

/// A call's arguments, flat.  `key` spells out everything but the tensors: containers, numbers, strings by value, other
/// objects by identity; two calls with equal keys differ in their tensors at most.
struct Flattened {
  std::vector<PyObject*> tensors;  ///< borrowed, in order
  std::string key;
  std::vector<PyObject*> objects;  ///< borrowed: those that `key` names by identity

  void clear() {
    tensors.clear();
    key.clear();
    objects.clear();
  }
};

void flatten(PyObject* object, Flattened& out);

/// The object with every tensor replaced by what `leaf` gives; containers are rebuilt, other objects are the same.
Ref rebuild(PyObject* object, const std::function<Ref(PyObject*)>& leaf);

/// How to make the user's result from its tensors.
class OutputSpec {
 public:
  /// Takes the structure of `result`; its tensors, in order, are appended to `leaves` (borrowed).
  OutputSpec(PyObject* result, std::vector<PyObject*>& leaves);
  /// The result with these tensors (borrowed) in their places.
  Ref build(PyObject* const* leaves) const;
  bool single() const { return single_; }

 private:
  Ref template_;  // the result that the tracing run returned, proxies at its leaves
  bool single_ = false;
  size_t count_ = 0;
};

}  // namespace thunder::frontend
