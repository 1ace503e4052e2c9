#include "frontend/number_places.h"

#include "frontend/kinds.h"
#include "python/lookup.h"

namespace thunder::frontend {

bool is_plain_number(PyObject* o) { return o && (PyLong_CheckExact(o) || PyFloat_CheckExact(o)); }

bool gives_its_entries(PyObject* dict) {
  if (!PyDict_Check(dict)) return false;
  static PyObject* getitem = PyUnicode_InternFromString("__getitem__");
  return PyDict_CheckExact(dict) || class_attribute(Py_TYPE(dict), getitem) == class_attribute(&PyDict_Type, getitem);
}

std::optional<std::string> name_of_key(PyObject* key) {
  if (!key) return std::string();
  if (PyUnicode_CheckExact(key)) {
    const char* text = PyUnicode_AsUTF8(key);
    if (!text) PyErr_Clear();
    return text ? std::optional<std::string>(text) : std::nullopt;
  }
  if (!PyLong_CheckExact(key)) return std::nullopt;
  int overflow = 0;
  const long long i = PyLong_AsLongLongAndOverflow(key, &overflow);
  if (overflow || i < 0) return std::nullopt;
  return "[" + std::to_string(i) + "]";
}

PyObject* value_at(PyObject* container, PyObject* key) {
  if (PyCell_Check(container)) return PyCell_GET(container);
  if (PyList_Check(container)) {
    const Py_ssize_t i = PyLong_AsSsize_t(key);
    if (i == -1 && PyErr_Occurred()) PyErr_Clear();
    return i >= 0 && i < PyList_GET_SIZE(container) ? PyList_GET_ITEM(container, i) : nullptr;
  }
  if (PyType_Check(container)) container = class_dict(container);
  PyObject* now = container ? PyDict_GetItemWithError(container, key) : nullptr;
  if (!now) PyErr_Clear();
  return now;
}

}  // namespace thunder::frontend
