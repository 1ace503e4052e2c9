#include "frontend/effect.h"

#include "frontend/kinds.h"

namespace thunder::frontend {
namespace {

bool set_or_delete(int (*set)(PyObject*, PyObject*, PyObject*), int (*remove)(PyObject*, PyObject*), PyObject* owner,
                   PyObject* key, PyObject* value) {
  if (value) return set(owner, key, value) == 0;
  if (remove(owner, key) == 0) return true;
  // What is to go is gone.
  if (!PyErr_ExceptionMatches(PyExc_KeyError) && !PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
  PyErr_Clear();
  return true;
}

// An ordered dict keeps its order beside the dict.
int set_entry(PyObject* d, PyObject* key, PyObject* value) {
  return PyODict_Check(d) ? PyODict_SetItem(d, key, value) : PyDict_SetItem(d, key, value);
}

int delete_entry(PyObject* d, PyObject* key) {
  return PyODict_Check(d) ? PyODict_DelItem(d, key) : PyDict_DelItem(d, key);
}

// Classes and modules have their own way; instances theirs is what their __setattr__ came to.  Null deletes.
int set_attribute(PyObject* o, PyObject* name, PyObject* value) {
  return PyType_Check(o) || PyModule_Check(o) ? PyObject_SetAttr(o, name, value)
                                              : PyObject_GenericSetAttr(o, name, value);
}

int delete_attribute(PyObject* o, PyObject* name) { return set_attribute(o, name, nullptr); }

// A dict in the order of the OrderedDict, which may be another one than that of the dict below it.
Ref copy_of_ordered(PyObject* d) {
  Ref out = Ref::steal(PyDict_New());
  const Ref keys = Ref::steal(PyODict_Type.tp_iter(d));
  while (PyObject* key = PyIter_Next(keys.get())) {
    const Ref owned = Ref::steal(key);
    PyObject* value = PyDict_GetItemWithError(d, key);
    if (!value || PyDict_SetItem(out.get(), key, value) < 0) throw PythonError();
  }
  if (PyErr_Occurred()) throw PythonError();
  return out;
}

}  // namespace

// By the methods of the base, whatever the class makes of them.
bool set_contents(PyObject* container, PyObject* contents) {
  if (PyList_Check(container)) return PyList_SetSlice(container, 0, PyList_GET_SIZE(container), contents) == 0;
  Ref held = Ref::borrow(contents);
  PyTypeObject* base = Py_TYPE(container);  // a deque's own
  if (PyAnySet_Check(container)) base = &PySet_Type;
  if (PyDict_Check(container)) base = PyODict_Check(container) ? &PyODict_Type : &PyDict_Type;
  auto* methods = reinterpret_cast<PyObject*>(base);
  PyObject* cleared = PyObject_CallMethod(methods, "clear", "O", container);
  Py_XDECREF(cleared);
  if (!cleared) return false;
  PyObject *key, *value;
  if (PyDict_Check(container)) {
    for (Py_ssize_t i = 0; PyDict_Next(contents, &i, &key, &value);)
      if (set_entry(container, key, value) < 0) return false;
    return true;
  }
  const char* method = PyAnySet_Check(container) ? "update" : "extend";
  PyObject* done = PyObject_CallMethod(methods, method, "OO", container, contents);
  Py_XDECREF(done);
  return done != nullptr;
}

Ref copy_of(PyObject* container) {
  if (PyODict_Check(container)) return copy_of_ordered(container);
  if (PyDict_Check(container)) return Ref::steal(PyDict_Copy(container));
  return Ref::steal(PyAnySet_Check(container) ? PySet_New(container) : PySequence_List(container));
}

bool apply_effect(const Effect& e, PyObject* owner, PyObject* value) {
  switch (e.kind) {
    case Effect::Entry:
      if (e.moved && value && !set_or_delete(set_entry, delete_entry, owner, e.key.get(), nullptr)) return false;
      return set_or_delete(set_entry, delete_entry, owner, e.key.get(), value);
    case Effect::Element: return PyList_SetItem(owner, PyLong_AsSsize_t(e.key.get()), Py_XNewRef(value)) == 0;
    case Effect::Attribute: return set_or_delete(set_attribute, delete_attribute, owner, e.key.get(), value);
    case Effect::Cell: return PyCell_Set(owner, value) == 0;
    case Effect::Appended: {
      Py_ssize_t end = PyList_GET_SIZE(owner);
      return PyList_SetSlice(owner, end, end, value) == 0;
    }
    case Effect::State: return e.state->put(value);
    default: return set_contents(owner, value);
  }
}

bool move_to_end(PyObject* dict, PyObject* key, PyObject* value) {
  return delete_entry(dict, key) == 0 && set_entry(dict, key, value) == 0;
}

}  // namespace thunder::frontend
