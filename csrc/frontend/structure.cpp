#include "frontend/structure.h"

#include <cstring>

#include "frontend/hooks.h"

namespace thunder::frontend {
namespace {

void put(std::string& key, const void* data, size_t n) { key.append(static_cast<const char*>(data), n); }

template <class T>
void put(std::string& key, char tag, T value) {
  key.push_back(tag);
  put(key, &value, sizeof value);
}

PyObject* fields_name() {
  static PyObject* name = PyUnicode_InternFromString("__dataclass_fields__");
  return name;
}

// The fields of a dataclass instance, borrowed; null for anything else.
PyObject* dataclass_fields(PyObject* o) {
  if (PyType_Check(o)) return nullptr;
  PyObject* fields = _PyType_Lookup(Py_TYPE(o), fields_name());
  return fields && PyDict_Check(fields) ? fields : nullptr;
}

void flatten_int(PyObject* o, std::string& key) {
  int overflow = 0;
  long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) return put(key, 'I', i);
  Ref text = Ref::steal(PyObject_Str(o));
  key.push_back('J');
  key += PyUnicode_AsUTF8(text.get());
  key.push_back('\0');
}

void flatten_container(PyObject* o, Flattened& out) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  bool exact = PyTuple_CheckExact(o) || PyList_CheckExact(o);
  put(out.key, PyTuple_Check(o) ? '(' : '[', n);
  if (!exact) put(out.key, 'C', reinterpret_cast<uintptr_t>(Py_TYPE(o)));
  for (Py_ssize_t i = 0; i < n; ++i) flatten(PySequence_Fast_GET_ITEM(o, i), out);
}

void flatten_dict(PyObject* o, Flattened& out) {
  put(out.key, '{', PyDict_GET_SIZE(o));
  if (!PyDict_CheckExact(o)) put(out.key, 'C', reinterpret_cast<uintptr_t>(Py_TYPE(o)));
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(o, &pos, &key, &value);) {
    flatten(key, out);
    flatten(value, out);
  }
}

void flatten_dataclass(PyObject* o, PyObject* fields, Flattened& out) {
  put(out.key, 'D', reinterpret_cast<uintptr_t>(Py_TYPE(o)));
  PyObject *name, *field;
  for (Py_ssize_t pos = 0; PyDict_Next(fields, &pos, &name, &field);) {
    PyObject* value = PyObject_GetAttr(o, name);
    if (!value) {
      PyErr_Clear();
      out.key.push_back('u');
      continue;
    }
    Ref owned = Ref::steal(value);  // the instance keeps it alive beyond this
    flatten(value, out);
  }
}

Ref rebuild_sequence(PyObject* o, const std::function<Ref(PyObject*)>& leaf) {
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  Ref list = Ref::steal(PyList_New(n));
  for (Py_ssize_t i = 0; i < n; ++i)
    PyList_SET_ITEM(list.get(), i, rebuild(PySequence_Fast_GET_ITEM(o, i), leaf).release());
  if (PyList_CheckExact(o)) return list;
  Ref tuple = Ref::steal(PyList_AsTuple(list.get()));
  if (PyTuple_CheckExact(o)) return tuple;
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
  // A named tuple takes its fields one by one, other subclasses one iterable.
  if (PyObject_HasAttrString(type, "_make")) return Ref::steal(PyObject_CallMethod(type, "_make", "(O)", tuple.get()));
  return Ref::steal(PyObject_CallOneArg(type, PyTuple_Check(o) ? tuple.get() : list.get()));
}

Ref shallow_copy(PyObject* o) {
  static PyObject* copy = PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("copy")).get(), "copy");
  return Ref::steal(PyObject_CallOneArg(copy, o));
}

Ref rebuild_dict(PyObject* o, const std::function<Ref(PyObject*)>& leaf) {
  Ref out = PyDict_CheckExact(o) ? Ref::steal(PyDict_New()) : shallow_copy(o);
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(o, &pos, &key, &value);) {
    Ref item = rebuild(value, leaf);
    if (PyObject_SetItem(out.get(), key, item.get()) != 0) throw PythonError();
  }
  return out;
}

Ref rebuild_dataclass(PyObject* o, PyObject* fields, const std::function<Ref(PyObject*)>& leaf) {
  Ref out = shallow_copy(o);
  PyObject *name, *field;
  for (Py_ssize_t pos = 0; PyDict_Next(fields, &pos, &name, &field);) {
    PyObject* value = PyObject_GetAttr(o, name);
    if (!value) {
      PyErr_Clear();
      continue;
    }
    Ref owned = Ref::steal(value), item = rebuild(value, leaf);
    if (item.get() == value) continue;
    // A frozen dataclass refuses plain assignment.
    if (PyObject_SetAttr(out.get(), name, item.get()) != 0) {
      PyErr_Clear();
      if (PyObject_GenericSetAttr(out.get(), name, item.get()) != 0) throw PythonError();
    }
  }
  return out;
}

}  // namespace

void flatten(PyObject* o, Flattened& out) {
  if (is_leaf(o)) {
    out.key.push_back('T');
    out.tensors.push_back(o);
    return;
  }
  if (o == Py_None) return out.key.push_back('N');
  if (PyBool_Check(o)) return out.key.push_back(o == Py_True ? 't' : 'f');
  if (PyLong_CheckExact(o)) return flatten_int(o, out.key);
  if (PyFloat_CheckExact(o)) return put(out.key, 'F', PyFloat_AS_DOUBLE(o));
  if (PyUnicode_CheckExact(o)) {
    Py_ssize_t n = 0;
    const char* s = PyUnicode_AsUTF8AndSize(o, &n);
    if (!s) throw PythonError();
    put(out.key, 'S', n);
    put(out.key, s, static_cast<size_t>(n));
    return;
  }
  if (PyTuple_Check(o) || PyList_Check(o)) return flatten_container(o, out);
  // A dataclass first: transformers' outputs are dataclasses and dicts at once.
  if (PyObject* fields = dataclass_fields(o)) return flatten_dataclass(o, fields, out);
  if (PyDict_Check(o)) return flatten_dict(o, out);
  put(out.key, 'O', reinterpret_cast<uintptr_t>(o));
  out.objects.push_back(o);
}

Ref rebuild(PyObject* o, const std::function<Ref(PyObject*)>& leaf) {
  if (is_leaf(o)) return leaf(o);
  if (PyTuple_Check(o) || PyList_Check(o)) return rebuild_sequence(o, leaf);
  if (PyObject* fields = dataclass_fields(o)) return rebuild_dataclass(o, fields, leaf);
  if (PyDict_Check(o)) return rebuild_dict(o, leaf);
  return Ref::borrow(o);
}

OutputSpec::OutputSpec(PyObject* result, std::vector<PyObject*>& leaves) : template_(Ref::borrow(result)) {
  single_ = is_leaf(result);
  Flattened flat;
  flatten(result, flat);
  count_ = flat.tensors.size();
  leaves.insert(leaves.end(), flat.tensors.begin(), flat.tensors.end());
}

Ref OutputSpec::build(PyObject* const* leaves) const {
  if (single_) return Ref::borrow(leaves[0]);
  size_t next = 0;
  return rebuild(template_.get(), [&](PyObject*) { return Ref::borrow(leaves[next++]); });
}

}  // namespace thunder::frontend
