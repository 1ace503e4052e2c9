// Numbers of the world that change from call to call: inputs of the program.
#include "frontend/hooks.h"
#include "frontend/number_places.h"
#include "frontend/reads.h"

namespace thunder::frontend {

// What stands for the number there; null: it is taken as it is.
PyObject* Reads::read_counter(PyObject* container, PyObject* key, PyObject* now) {
  const std::optional<std::string> name = name_of_key(key);
  if (!name || !counters_->count({container, *name}) || fresh(container) || written(container, key)) return nullptr;
  if (!is_plain_number(now)) return nullptr;
  int overflow = 0;
  if (PyLong_Check(now) && (PyLong_AsLongLongAndOverflow(now, &overflow) < 2 || overflow)) return nullptr;
  return tracer_.read_counter(container, key, now).release();
}

PyObject* Reads::read_counter(PyObject* object, PyObject* name) {
  if (!counters_ || counters_->empty() || fresh(object) || is_tensor(object) || PyType_Check(object)) return nullptr;
  if (PyModule_Check(object)) {
    PyObject* dict = PyModule_GetDict(object);
    return read_counter(dict, name, value_at(dict, name));
  }
  PyTypeObject* type = Py_TYPE(object);
  PyObject** dict = _PyObject_GetDictPtr(object);
  static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
  const bool plain = type->tp_getattro == PyObject_GenericGetAttr ||
                     _PyType_Lookup(type, getattribute) == _PyType_Lookup(&PyBaseObject_Type, getattribute);
  if (!dict || !*dict || !plain) return nullptr;
  PyObject* found = _PyType_Lookup(type, name);
  if (found && Py_TYPE(found)->tp_descr_set) return nullptr;
  PyObject* counter = read_counter(*dict, name, value_at(*dict, name));
  if (!counter) return nullptr;
  read_type(object);
  read_class(type, name, found);
  return counter;
}

std::optional<PyObject*> Reads::entry(PyObject* container, PyObject* key) {
  if (!counters_ || counters_->empty()) return std::nullopt;
  const bool plain = key ? PyDict_CheckExact(container) || (PyList_CheckExact(container) && PyLong_CheckExact(key))
                         : PyCell_Check(container);
  if (!plain || (key && !name_of_key(key))) return std::nullopt;
  PyObject* counter = read_counter(container, key, value_at(container, key));
  return counter ? std::optional<PyObject*>(counter) : std::nullopt;
}

}  // namespace thunder::frontend
