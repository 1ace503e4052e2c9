#include "frontend/deep_reads.h"

#include "frontend/c_methods.h"
#include "frontend/kinds.h"
#include "python/stack.h"

namespace thunder::frontend {

void DeepReads::read(PyObject* object) {
  check_stack();
  uses_.ask_everything(object);
  object = shown_by(object);
  bool tuple = PyTuple_Check(object);
  if (!tuple && !is_container(object)) {
    states_.touch(object);
    fresh_.will_advance(object);
    return read_callable(object);
  }
  containers_.read_whole(object);
  if (!visited_.insert(object).second) return;  // a cycle
  if (tuple || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) read(PySequence_Fast_GET_ITEM(object, i));
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(object, &i, &key, &value);) read(value);
  }
  visited_.erase(object);
}

void DeepReads::read_arguments(PyObject* const* arguments, size_t n) {
  for (size_t i = 0; i < n; ++i) read(arguments[i]);
}

void DeepReads::read_callable(PyObject* o) {
  static PyObject* partial = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("functools")).get(), "partial");
  if (PyCFunction_Check(o)) {
    PyObject* self = PyCFunction_GET_SELF(o);
    const char* name = reinterpret_cast<PyCFunctionObject*>(o)->m_ml->ml_name;
    if (self && is_container(self)) changes_container(name) ? writes_.will_change(self) : containers_.read_whole(self);
    else if (self) fresh_.will_advance(self);
    return;
  }
  if (fresh_.has(o) || !PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(partial))) return;
  for (const char* name : {"func", "args", "keywords"}) {
    Ref key = Ref::steal(PyUnicode_InternFromString(name)), value = Ref::steal(PyObject_GetAttr(o, key.get()));
    attributes_.add(o, key.get(), value.get());
    read(value.get());
  }
}

}  // namespace thunder::frontend
