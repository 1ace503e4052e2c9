#include "frontend/unseen.h"

#include <unordered_set>

#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"
#include "python/lookup.h"
#include "python/text.h"

namespace thunder::frontend {
namespace {

// Packages whose objects are containers or iterators that the acquisition follows, or do not change, or have a state
// that it compares.  Methods and functions that pybind11 made are alike, with what it keeps of them for self.
const std::unordered_set<std::string_view>& known_packages() {
  static const auto* known = new std::unordered_set<std::string_view>{
      "builtins",     "collections", "_collections", "itertools", "functools", "_functools",
      "operator",     "_operator",   "re",           "_sre",      "datetime",  "decimal",
      "fractions",    "_thread",     "array",        "_ctypes",   "ctypes",    "contextvars",
      "_contextvars", "weakref",     "_weakref",     "_random",   "random",    "_io",
      "io",           "_struct",     "struct",       "types",     "typing",    "_typing",
      "_abc",         "mmap",        "numpy",        "torch",     "thunder",   "pybind11_builtins",
      "zoneinfo",     "_json",       "unicodedata",  "time"};
  return *known;
}

// The class that a method of C code is of.
PyTypeObject* owner(PyObject* self, std::string_view name) {
  Ref key = Ref::steal(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  // The class may have a method of Python code over it, which calls it by super().
  PyObject* classes = Py_TYPE(self)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i) {
    PyObject* found = class_attribute(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(classes, i)), key.get());
    if (found && (Py_IS_TYPE(found, &PyMethodDescr_Type) || Py_IS_TYPE(found, &PyWrapperDescr_Type)))
      return PyDescr_TYPE(found);
  }
  return Py_TYPE(self);
}

std::string text_of(PyTypeObject* type, const char* attribute) {
  PyObject* value = PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), attribute);
  if (!value) return PyErr_Clear(), "";
  const Ref owned = Ref::steal(value);
  return PyUnicode_Check(value) ? printable(value) : "";
}

}  // namespace

bool leave_to_eager(Acquisition& acquisition, const std::string& does) {
  interpreter::NotInterpreting scope;
  try {
    acquisition.leave_to_eager("the function " + does);
  } catch (...) {
    hooks().set_python_error();
  }
  return false;
}

bool sets_unseen(PyObject* o) {
  static PyObject* name = PyUnicode_InternFromString("__setattr__");
  PyObject* found = class_attribute(Py_TYPE(o), name);
  return found && Py_IS_TYPE(found, &PyWrapperDescr_Type) && !is_tensor(o) && !PyWeakref_CheckProxy(o);
}

std::string unseen_method(PyObject* self, std::string_view name, std::string_view of) {
  if (of == "torch._C._distributed_c10d") {
    const bool asks = name.starts_with("_") || name == "rank" || name == "size" || name == "name";
    return asks ? "" : "communicates with other processes (" + std::string(name) + "())";
  }
  PyTypeObject* type = owner(self, name);
  const std::string module = text_of(type, "__module__");
  if (known_packages().count(std::string_view(module).substr(0, module.find('.'))) != 0) return {};
  return "calls " + std::string(name) + "() of a " + module + "." + text_of(type, "__qualname__") +
         ", whose state cannot be seen";
}

}  // namespace thunder::frontend
