// Numbers of the environment that change from call to call: inputs of the program.
#include "frontend/hooks.h"
#include "frontend/number_places.h"
#include "frontend/reads.h"
#include "python/lookup.h"

namespace thunder::frontend {

// What stands for the number there; null: it is taken as it is.
PyObject* Reads::read_counter(PyObject* container, PyObject* key, PyObject* now) {
  const std::optional<std::string> name = name_of_key(key);
  if (!name || !counters_->count({container, *name}) || fresh(container)) return nullptr;
  if (PyType_Check(container) ? attribute_written(container, key) : written(container, key)) return nullptr;
  if (!is_plain_number(now)) return nullptr;
  int overflow = 0;
  if (PyLong_Check(now) && (PyLong_AsLongLongAndOverflow(now, &overflow) < 2 || overflow)) return nullptr;
  return tracer_.questions().read_counter(container, key, now).release();
}

// Of a class itself; one that it inherits is taken as it is.
PyObject* Reads::read_counter_of_class(PyTypeObject* type, PyObject* name) {
  PyTypeObject* meta = Py_TYPE(type);
  if (meta->tp_getattro != PyType_Type.tp_getattro || class_attribute(meta, name)) return nullptr;
  auto* o = reinterpret_cast<PyObject*>(type);
  PyObject* counter = read_counter(o, name, value_at(o, name));
  if (counter) read_class(meta, name, nullptr);
  return counter;
}

PyObject* Reads::read_counter(PyObject* object, PyObject* name) {
  if (!counters_ || counters_->empty() || is_tensor(object)) return nullptr;
  if (PyType_Check(object)) return read_counter_of_class(reinterpret_cast<PyTypeObject*>(object), name);
  if (PyModule_Check(object)) {
    PyObject* dict = PyModule_GetDict(object);
    return read_counter(dict, name, value_at(dict, name));
  }
  PyTypeObject* type = Py_TYPE(object);
  static PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
  const bool plain = type->tp_getattro == PyObject_GenericGetAttr ||
                     class_attribute(type, getattribute) == class_attribute(&PyBaseObject_Type, getattribute);
  PyObject* found = plain ? class_attribute(type, name) : nullptr;
  if (!plain || (found && Py_TYPE(found)->tp_descr_set)) return nullptr;
  PyObject** place = dict_place(object);
  PyObject* dict = place ? *place : nullptr;
  auto* of_all = reinterpret_cast<PyObject*>(type);
  const bool in_class = (!dict || !value_at(dict, name)) && found && value_at(of_all, name) == found;
  PyObject* counter = nullptr;
  if (in_class) counter = read_counter(of_all, name, found);
  else if (dict && !fresh(object)) counter = read_counter(dict, name, value_at(dict, name));
  if (!counter) return nullptr;
  read_type(object);
  if (!in_class) read_class(type, name, found);
  else if (dict && !fresh(object)) read_entry(dict, name, nullptr);
  return counter;
}

std::optional<PyObject*> Reads::entry(PyObject* container, PyObject* key) {
  if (!counters_ || counters_->empty()) return std::nullopt;
  const bool plain = key ? gives_its_entries(container) || (PyList_CheckExact(container) && PyLong_CheckExact(key))
                         : PyCell_Check(container);
  if (!plain || (key && !name_of_key(key))) return std::nullopt;
  PyObject* counter = read_counter(container, key, value_at(container, key));
  return counter ? std::optional<PyObject*>(counter) : std::nullopt;
}

}  // namespace thunder::frontend
