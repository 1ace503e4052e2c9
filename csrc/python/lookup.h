// Where attributes lie in objects and classes: CPython's functions without a public name.
//
// The interpreter (frontend/interpreter) has more of them, those of frames; no other file has one
// (tools/check_layers.py).
#pragma once

#include <Python.h>

namespace thunder {

/// The attribute that a class or one of its bases has by this name, as it lies there (no descriptor is called);
/// borrowed.  Null without an exception: there is none.
inline PyObject* class_attribute(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }

/// Where an object keeps its `__dict__`: null for an object that can have none, a pointer to null for one that has none
/// yet.
inline PyObject** dict_place(PyObject* o) { return _PyObject_GetDictPtr(o); }

/// Whether it is a slot of C code bound to its object, as `[].__len__` is.
inline bool is_bound_slot(PyObject* o) { return Py_IS_TYPE(o, &_PyMethodWrapper_Type); }

/// The mapping that a class's `__dict__` or a view of a dict (`d.keys()`) shows; borrowed, null for other objects.
inline PyObject* mapping_of_view(PyObject* o) {
  struct Proxy {
    PyObject_HEAD
    PyObject* mapping;
  };
  if (Py_IS_TYPE(o, &PyDictProxy_Type)) return reinterpret_cast<Proxy*>(o)->mapping;
  if (PyDictViewSet_Check(o) || PyDictValues_Check(o))
    return reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(o)->dv_dict);
  return nullptr;
}

}  // namespace thunder
