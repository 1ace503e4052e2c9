// What messages call the objects of the environment: "module.layers.0".
//
// A name is made of the path by which the program first reached the object.  Owns the names; calls nothing.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/kept_set.h"

namespace thunder::frontend {

class ObjectNames {
 public:
  const std::string& of(PyObject* o);
  /// An object that the code begins with.
  void name_root(PyObject* object, std::string name);
  /// `value` was found in `owner` at a key, or in the attribute with that name.
  void name_value(PyObject* owner, PyObject* key, PyObject* value, bool attribute);
  void name_instance_dict(PyObject* object, PyObject* dict);
  void name_globals(PyObject* module, PyObject* globals);
  /// What a closure's cell holds.
  void name_in_closure(PyObject* value);

 private:
  std::unordered_map<PyObject*, std::string> names_;
  std::vector<Ref> kept_;  // addresses stay what they are
  KeptSet instance_dicts_;
};

}  // namespace thunder::frontend
