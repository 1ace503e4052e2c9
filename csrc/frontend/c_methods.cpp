#include "frontend/c_methods.h"

#include <algorithm>
#include <cstring>

#include "frontend/outside_state.h"
#include "python/lookup.h"
#include "python/text.h"

namespace thunder::frontend {

bool is_cython(PyObject* o) { return std::strstr(Py_TYPE(o)->tp_name, "cython_function"); }

std::optional<CMethod> method_of(PyObject* callable, PyObject* const* arguments, size_t n) {
  CMethod m{{}, nullptr, arguments, n, {}};
  if (PyCFunction_Check(callable)) {
    m.name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    m.self = PyCFunction_GET_SELF(callable);
    return m;
  }
  if (is_bound_slot(callable)) {
    Ref self = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
    Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
    m.owned = Ref::steal(PyTuple_Pack(2, self.get(), name.get()));
    m.self = self.get();
    m.name = printable(name.get());
    return m;
  }
  if (n == 0) return std::nullopt;
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type))
    m.name = reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name;
  else if (Py_IS_TYPE(callable, &PyWrapperDescr_Type))
    m.name = reinterpret_cast<PyWrapperDescrObject*>(callable)->d_base->name;
  else if (is_cython(callable)) {
    m.owned = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
    if (class_attribute(Py_TYPE(arguments[0]), m.owned.get()) != callable) return std::nullopt;
    m.name = printable(m.owned.get());
  } else return std::nullopt;
  m.self = arguments[0], ++m.arguments, --m.n;
  return m;
}

std::optional<CMethod> method_of_extension(PyObject* bound, PyObject* const* arguments, size_t n) {
  PyObject* function = PyMethod_GET_FUNCTION(bound);
  if (Py_TYPE(function)->tp_flags & Py_TPFLAGS_HEAPTYPE && !is_cython(function)) return std::nullopt;
  PyObject* name = PyObject_GetAttrString(function, "__name__");
  if (!name) return PyErr_Clear(), std::nullopt;
  CMethod m{{}, PyMethod_GET_SELF(bound), arguments, n, Ref::steal(name)};
  if (!PyUnicode_Check(name)) return std::nullopt;
  m.name = printable(name);
  return m;
}

std::string origin(PyObject* callable, PyObject* self) {
  if (self && is_random(self)) return "_random";
  if (self && PyModule_Check(self)) return PyModule_GetName(self);
  PyObject* type = !self || PyType_Check(self) ? self : reinterpret_cast<PyObject*>(Py_TYPE(self));
  for (PyObject* o : {callable, type}) {
    PyObject* module = o ? PyObject_GetAttrString(o, "__module__") : nullptr;
    if (!module) PyErr_Clear();
    std::string name = module && PyUnicode_Check(module) ? printable(module) : "";
    Py_XDECREF(module);
    if (!name.empty()) return name;
  }
  return {};
}

bool one_of(std::string_view name, const std::initializer_list<std::string_view>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool changes_container(std::string_view name) {
  // clang-format off
  static const std::initializer_list<std::string_view> names = {
      "append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "__setitem__", "__delitem__", "__iadd__",
      "__imul__", "update", "popitem", "setdefault", "move_to_end", "__ior__", "add", "discard", "difference_update",
      "intersection_update", "symmetric_difference_update", "__iand__", "__isub__", "__ixor__", "appendleft", "popleft",
      "extendleft", "rotate"};
  // clang-format on
  return one_of(name, names);
}

}  // namespace thunder::frontend
