#include "frontend/counters.h"

#include "frontend/hooks.h"
#include "frontend/number_places.h"
#include "python/lookup.h"

namespace thunder::frontend {

PyObject* Counters::read(PyObject* container, PyObject* key, PyObject* now) {
  const std::optional<std::string> name = name_of_key(key);
  if (!name || !places_->count({container, *name}) || fresh_.has(container)) return nullptr;
  if (PyType_Check(container) ? log_.attribute_written(container, key) : log_.written(container, key)) return nullptr;
  if (!is_plain_number(now)) return nullptr;
  int overflow = 0;
  if (PyLong_Check(now) && (PyLong_AsLongLongAndOverflow(now, &overflow) < 2 || overflow)) return nullptr;
  return questions_.read_counter(container, key, now).release();
}

// Of a class itself; one that it inherits is taken as it is.
PyObject* Counters::attribute_of_class(PyTypeObject* type, PyObject* name) {
  PyTypeObject* meta = Py_TYPE(type);
  if (meta->tp_getattro != PyType_Type.tp_getattro || class_attribute(meta, name)) return nullptr;
  auto* o = reinterpret_cast<PyObject*>(type);
  PyObject* counter = read(o, name, value_at(o, name));
  if (counter) classes_.read(meta, name, nullptr);
  return counter;
}

PyObject* Counters::attribute(PyObject* object, PyObject* name) {
  if (!places_ || places_->empty() || is_tensor(object)) return nullptr;
  if (PyType_Check(object)) return attribute_of_class(reinterpret_cast<PyTypeObject*>(object), name);
  if (PyModule_Check(object)) {
    PyObject* dict = PyModule_GetDict(object);
    return read(dict, name, value_at(dict, name));
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
  if (in_class) counter = read(of_all, name, found);
  else if (dict && !fresh_.has(object)) counter = read(dict, name, value_at(dict, name));
  if (!counter) return nullptr;
  classes_.read_type(object);
  if (!in_class) classes_.read(type, name, found);
  else if (dict && !fresh_.has(object)) containers_.read_entry(dict, name, nullptr);
  return counter;
}

PyObject* Counters::entry(PyObject* container, PyObject* key) {
  if (!places_ || places_->empty()) return nullptr;
  const bool plain = key ? gives_its_entries(container) || (PyList_CheckExact(container) && PyLong_CheckExact(key))
                         : PyCell_Check(container);
  if (!plain || (key && !name_of_key(key))) return nullptr;
  return read(container, key, value_at(container, key));
}

}  // namespace thunder::frontend
