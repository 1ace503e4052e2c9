#include "frontend/kinds.h"

#include <structmember.h>

#include <algorithm>
#include <string_view>

#include "frontend/hooks.h"
#include "python/lookup.h"
#include "python/text.h"

namespace thunder::frontend {

PyObject* dataclass_fields(PyObject* o) {
  static PyObject* name = PyUnicode_InternFromString("__dataclass_fields__");
  if (PyType_Check(o)) return nullptr;
  PyObject* fields = class_attribute(Py_TYPE(o), name);
  return fields && PyDict_Check(fields) ? fields : nullptr;
}

bool is_module(PyObject* o) {
  static PyObject* name = PyUnicode_InternFromString("_parameters");
  PyObject** dict = dict_place(o);
  return dict && *dict && PyDict_Contains(*dict, name) == 1;
}

bool is_python_object(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type->tp_itemsize || PyType_Check(o)) return false;
  for (; type && type != &PyBaseObject_Type; type = type->tp_base)
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) return false;
  return true;
}

bool is_plain_object(PyObject* o) {
  static auto* enums = reinterpret_cast<PyTypeObject*>(
      PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("enum")).get(), "EnumMeta"));
  PyTypeObject* type = Py_TYPE(o);
  if (!is_python_object(o) || type->tp_finalize || PyType_IsSubtype(Py_TYPE(type), enums)) return false;
  // Nothing but the places for a dict and weak references: no slots.
  if (type->tp_basicsize > static_cast<Py_ssize_t>(sizeof(PyObject) + 2 * sizeof(PyObject*))) return false;
  PyObject** dict = dict_place(o);
  return dict && *dict && !is_module(o);
}

bool overrides_torch_functions(PyObject* o) {
  static PyObject* name = PyUnicode_InternFromString("__torch_function__");
  return (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE) && class_attribute(Py_TYPE(o), name) && !is_traced_value(o);
}

bool is_more_than_a_container(PyObject* o) {
  if (PyList_Check(o)) return !PyList_CheckExact(o);
  const bool tuple = PyTuple_Check(o) && !PyTuple_CheckExact(o), dict = PyDict_Check(o) && !PyDict_CheckExact(o);
  if (!tuple && !(dict && !dataclass_fields(o))) return false;
  PyObject** attributes = dict_place(o);
  return attributes && *attributes && PyDict_GET_SIZE(*attributes) > 0;
}

bool is_partial(PyObject* o) {
  static PyObject* partial = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("functools")).get(), "partial");
  return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(partial));
}

bool is_bare_partial(PyObject* o) {
  if (!is_partial(o) || std::string_view(Py_TYPE(o)->tp_name) != "functools.partial") return false;
  PyObject** dict = dict_place(o);
  return !dict || !*dict || PyDict_GET_SIZE(*dict) == 0;
}

bool is_numpy_number(PyObject* o) {
  static constexpr std::string_view kPrefix = "numpy.";
  // clang-format off
  static constexpr std::string_view kNames[] = {
      "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
      "longlong", "ulonglong", "intc", "uintc", "bool", "bool_", "complex64", "complex128"};
  // clang-format on
  std::string_view name = Py_TYPE(o)->tp_name;
  if ((Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE) || !name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

bool is_numpy_float64(PyObject* o) {
  return PyFloat_Check(o) && !PyFloat_CheckExact(o) && std::string_view(Py_TYPE(o)->tp_name) == "numpy.float64" &&
         is_numpy_number(o);
}

bool is_path(PyObject* o) {
  static auto* pure = reinterpret_cast<PyTypeObject*>(
      PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("pathlib")).get(), "PurePath"));
  if (!PyType_IsSubtype(Py_TYPE(o), pure)) return false;
  Ref module = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(o)), "__module__"));
  return PyUnicode_Check(module.get()) && printable(module.get()).starts_with("pathlib");
}

PyObject* attributes(PyObject* o) {
  if (PyType_Check(o) || PyModule_Check(o) || PyFunction_Check(o) || is_module(o)) return nullptr;
  PyObject** dict = dict_place(o);
  return dict ? *dict : nullptr;
}

PyObject* class_dict(PyObject* type) {
  auto* t = reinterpret_cast<PyTypeObject*>(type);
#if PY_VERSION_HEX >= 0x030C0000
  // The interpreter has those of CPython's own classes.
  PyObject* dict = PyType_GetDict(t);
  Py_XDECREF(dict);
  return dict;
#else
  return t->tp_dict;
#endif
}

void each_slot(PyObject* o, const std::function<void(PyObject* name, PyObject* value)>& visit) {
  PyObject* order = Py_TYPE(o)->tp_mro;
  for (Py_ssize_t i = 0; order && i < PyTuple_GET_SIZE(order); ++i) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(order, i));
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) continue;
    PyObject* dict = class_dict(PyTuple_GET_ITEM(order, i));
    PyObject *name, *found;
    for (Py_ssize_t pos = 0; PyDict_Next(dict, &pos, &name, &found);) {
      if (!Py_IS_TYPE(found, &PyMemberDescr_Type)) continue;
      const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(found)->d_member;
      if (member->type != T_OBJECT_EX || (member->flags & READONLY)) continue;
      PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(o) + member->offset);
      if (value) visit(name, value);
    }
  }
}

bool is_deque(PyObject* o) {
  static PyObject* type = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("collections")).get(), "deque");
  return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(type));
}

bool is_container(PyObject* o) { return PyList_Check(o) || PyAnySet_Check(o) || PyDict_Check(o) || is_deque(o); }

bool is_native_iterator(PyObject* o) {
  static PyObject* next = PyUnicode_InternFromString("__next__");
  if (!PyIter_Check(o)) return false;
  PyObject* found = class_attribute(Py_TYPE(o), next);
  return !found || !PyFunction_Check(found);
}

namespace {

struct Walk {
  std::unordered_set<PyObject*> seen;
  std::vector<PyObject*> open;
  bool found = false;
};

// Classes, modules and the globals of functions are the program's surroundings.
int walk_to(PyObject* o, void* walk) {
  auto& w = *static_cast<Walk*>(walk);
  if (is_proxy(o) || is_traced_number(o)) w.found = true;
  if (w.found || PyType_Check(o) || PyModule_Check(o) || is_tensor(o) || !PyObject_IS_GC(o)) return w.found;
  if (w.seen.insert(o).second) w.open.push_back(o);
  return 0;
}

Ref replacement(PyObject* function) {
  const auto by = hooks().replaced.find(PyFunction_GET_CODE(function));
  return by == hooks().replaced.end() ? Ref() : by->second;
}

}  // namespace

Ref stands_for(PyObject* callable) {
  const char* attribute = "_torchdynamo_inline";
  if (PyMethod_Check(callable)) {
    PyObject *function = PyMethod_GET_FUNCTION(callable), *self = PyMethod_GET_SELF(callable);
    const Ref by = PyFunction_Check(function) ? replacement(function) : Ref();
    return by ? Ref::steal(PyMethod_New(by.get(), self)) : Ref();
  }
  if (PyFunction_Check(callable)) {
    if (Ref by = replacement(callable)) return by;
    const std::string path = printable(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable))->co_filename);
    if (!path.ends_with("torch/_compile.py") && !path.ends_with("torch/_dynamo/eval_frame.py")) return {};
    attribute = "__wrapped__";
  } else if (!std::string_view(Py_TYPE(callable)->tp_name).ends_with("ScriptFunction")) {
    return {};
  }
  PyObject* function = PyObject_GetAttrString(callable, attribute);
  if (!function) PyErr_Clear();
  return function ? Ref::steal(function) : Ref();
}

bool reaches_proxy(PyObject* o) {
  constexpr size_t kMost = 100000;
  Walk w;
  w.open.push_back(o);
  while (!w.open.empty() && !w.found && w.seen.size() < kMost) {
    PyObject* next = w.open.back();
    w.open.pop_back();
    if (PyFunction_Check(next)) {
      for (PyObject* part :
           {PyFunction_GET_CLOSURE(next), PyFunction_GET_DEFAULTS(next), PyFunction_GET_KW_DEFAULTS(next)})
        if (part) walk_to(part, &w);
    } else if (traverseproc traverse = Py_TYPE(next)->tp_traverse) {
      traverse(next, walk_to, &w);
    }
  }
  return w.found;
}

}  // namespace thunder::frontend
