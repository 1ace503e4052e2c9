#include "frontend/structure.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/kinds.h"
#include "python/lookup.h"
#include "python/stack.h"
#include "python/text.h"

namespace thunder::frontend {
namespace {

void put(std::string& key, const void* data, size_t n) { key.append(static_cast<const char*>(data), n); }

template <class T>
void put(std::string& key, char tag, T value) {
  key.push_back(tag);
  put(key, &value, sizeof value);
}

void put_class(char tag, PyObject* o, Flattened& out) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
  put(out.key, tag, reinterpret_cast<uintptr_t>(type));
  out.objects.push_back(type);
}

void flatten_symbolic(PyObject* o, Flattened& out) {
  if (PyFloat_CheckExact(o)) {
    out.key.push_back('d');
    out.floats.push_back(PyFloat_AS_DOUBLE(o));
  } else if (PyFloat_Check(o)) {
    out.key.push_back('e');  // NumPy's
    out.floats.push_back(PyFloat_AS_DOUBLE(o));
  } else {
    out.key.push_back('i');
    out.ints.push_back(PyLong_AsLongLong(o));
  }
}

// What it holds is taken as it is.
class Literally {
 public:
  explicit Literally(Flattened& flat) : flat_(flat), symbolic_(std::exchange(flat.symbolic, false)) {}
  ~Literally() { flat_.symbolic = symbolic_; }

 private:
  Flattened& flat_;
  bool symbolic_;
};

void flatten_int(PyObject* o, std::string& key) {
  int overflow = 0;
  long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) return put(key, 'I', i);
  Ref text = Ref::steal(PyObject_Str(o));
  key.push_back('J');
  key += printable(text.get());
  key.push_back('\0');
}

// Whether it came before; if not, it is remembered.
bool again(PyObject* o, Flattened& out) {
  constexpr size_t kFew = 16;
  size_t at = out.containers.size();
  if (at <= kFew) {
    at = static_cast<size_t>(std::find(out.containers.begin(), out.containers.end(), o) - out.containers.begin());
  } else {
    for (size_t i = out.places.size(); i < at; ++i) out.places.emplace(out.containers[i], i);
    if (auto it = out.places.find(o); it != out.places.end()) at = it->second;
  }
  if (at < out.containers.size()) {
    put(out.key, 'R', at);
    return true;
  }
  out.containers.push_back(o);
  return false;
}

void flatten_identity(PyObject* o, Flattened& out) {
  put(out.key, 'O', reinterpret_cast<uintptr_t>(o));
  out.objects.push_back(o);
}

void flatten_entries(PyObject* dict, Flattened& out) {
  put(out.key, '{', PyDict_GET_SIZE(dict));
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; out.key.size() <= out.limit && PyDict_Next(dict, &pos, &key, &value);) {
    if (is_plain_object(key) || is_traced_value(key)) {
      flatten_identity(key, out);
    } else {
      Literally keys(out);
      flatten(key, out);
    }
    flatten(value, out);
  }
}

void flatten_container(PyObject* o, Flattened& out) {
  if (PyList_Check(o) && again(o, out)) return;
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  bool exact = PyTuple_CheckExact(o) || PyList_CheckExact(o);
  put(out.key, PyTuple_Check(o) ? '(' : '[', n);
  if (!exact) put_class('C', o, out);
  for (Py_ssize_t i = 0; i < n && out.key.size() <= out.limit; ++i) flatten(PySequence_Fast_GET_ITEM(o, i), out);
}

void flatten_dict(PyObject* o, Flattened& out) {
  if (again(o, out)) return;
  if (!PyDict_CheckExact(o)) put_class('C', o, out);
  flatten_entries(o, out);
}

void flatten_dataclass(PyObject* o, PyObject* fields, Flattened& out) {
  if (again(o, out)) return;
  Literally all(out);
  put_class('D', o, out);
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

constexpr size_t kMostOfAnObject = 1 << 15;  // bytes of key

// Its attributes; by identity if they are too many to look at in every call.
void flatten_object(PyObject* o, Flattened& out) {
  if (again(o, out)) return;
  const bool outermost = out.limit == SIZE_MAX;
  const size_t key = out.key.size(), tensors = out.tensors.size(), containers = out.containers.size() - 1,
               objects = out.objects.size(), ints = out.ints.size(), floats = out.floats.size();
  if (outermost) out.limit = key + kMostOfAnObject;
  put_class('A', o, out);
  PyObject *name, *value;
  for (Py_ssize_t i = 0; out.key.size() <= out.limit && PyDict_Next(*dict_place(o), &i, &name, &value);) {
    if (out.uses && !is_wanted(*out.uses, o, name)) continue;
    flatten(name, out);
    flatten(value, out);
  }
  out.key.push_back('.');
  if (!outermost) return;
  const bool too_much = out.key.size() > std::exchange(out.limit, SIZE_MAX);
  if (!too_much) return;
  out.key.resize(key);
  out.tensors.resize(tensors);
  out.containers.resize(containers);
  out.places.clear();
  out.objects.resize(objects);
  out.ints.resize(ints);
  out.floats.resize(floats);
  flatten_identity(o, out);
}

void flatten_slice(PyObject* o, Flattened& out) {
  auto* s = reinterpret_cast<PySliceObject*>(o);
  out.key.push_back('s');
  for (PyObject* part : {s->start, s->stop, s->step}) flatten(part, out);
}

// A callable of C code: what it calls, and with what.
void flatten_partial(PyObject* o, Flattened& out) {
  if (again(o, out)) return;
  out.key.push_back('P');
  for (const char* name : {"func", "args"}) flatten(Ref::steal(PyObject_GetAttrString(o, name)).get(), out);
  flatten_entries(Ref::steal(PyObject_GetAttrString(o, "keywords")).get(), out);
}

// What equality alone tells apart, and holds nothing else.
bool is_simple(PyObject* o) {
  if (PyTuple_CheckExact(o)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
      if (!is_simple(PyTuple_GET_ITEM(o, i))) return false;
    return true;
  }
  return o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyUnicode_CheckExact(o) ||
         PyBytes_CheckExact(o);
}

// In the order in which the code sees the elements.
void flatten_frozenset(PyObject* o, Flattened& out) {
  Literally all(out);
  put(out.key, 'z', PySet_GET_SIZE(o));
  Ref elements = Ref::steal(PySequence_List(o));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements.get()); ++i) {
    PyObject* element = PyList_GET_ITEM(elements.get(), i);
    is_simple(element) ? flatten(element, out) : flatten_identity(element, out);
  }
}

bool flatten_numpy_number(PyObject* o, Flattened& out) {
  Py_buffer view;
  if (PyObject_GetBuffer(o, &view, PyBUF_SIMPLE) < 0) return PyErr_Clear(), false;
  put_class('n', o, out);
  put(out.key, view.buf, static_cast<size_t>(view.len));
  PyBuffer_Release(&view);
  return true;
}

// What cannot change, and is as good as any other of the same value.  False: it is something else.
bool flatten_value(PyObject* o, Flattened& out) {
  if (PySlice_Check(o)) return flatten_slice(o, out), true;
  if (Py_IS_TYPE(o, &PyRange_Type)) {
    out.key.push_back('r');
    for (const char* name : {"start", "stop", "step"})
      flatten_int(Ref::steal(PyObject_GetAttrString(o, name)).get(), out.key);
    return true;
  }
  if (PyBytes_CheckExact(o)) {
    put(out.key, 'B', PyBytes_GET_SIZE(o));
    return put(out.key, PyBytes_AS_STRING(o), static_cast<size_t>(PyBytes_GET_SIZE(o))), true;
  }
  if (PyComplex_CheckExact(o)) return put(out.key, 'X', reinterpret_cast<PyComplexObject*>(o)->cval), true;
  if (PyFrozenSet_CheckExact(o)) return flatten_frozenset(o, out), true;
  if (is_numpy_number(o)) return flatten_numpy_number(o, out);
  if (!is_path(o)) return false;
  put_class('p', o, out);
  out.paths.push_back(o);
  return flatten(Ref::steal(PyObject_Str(o)).get(), out), true;
}

// A tensor, and of its attributes those that the function looks at.
void flatten_leaf(PyObject* o, Flattened& out) {
  out.key.push_back('T');
  out.tensors.push_back(o);
  const ClassUse* use = use_of_tensors(out.uses);
  if (!use || !is_tensor(o)) return;
  PyObject** dict = dict_place(o);
  const bool any = dict && *dict && PyDict_GET_SIZE(*dict) > 0;
  if ((!any && !use->written) || again(o, out)) return;
  out.key.push_back('A');
  PyObject *name, *value;
  for (Py_ssize_t i = 0; any && PyDict_Next(*dict, &i, &name, &value);) {
    if (!use->wants(name)) continue;
    flatten(name, out);
    flatten(value, out);
  }
  out.key.push_back('.');
}

}  // namespace

void flatten_string(PyObject* o, std::string& key) {
  Py_ssize_t n = 0;
  if (const char* s = PyUnicode_AsUTF8AndSize(o, &n)) {
    put(key, 'S', n);
    return put(key, s, static_cast<size_t>(n));
  }
  PyErr_Clear();  // a lone surrogate
  const Ref bytes = Ref::steal(PyUnicode_AsEncodedString(o, "utf-8", "surrogatepass"));
  n = PyBytes_GET_SIZE(bytes.get());
  put(key, 'U', n);
  put(key, PyBytes_AS_STRING(bytes.get()), static_cast<size_t>(n));
}

void flatten(PyObject* o, Flattened& out) {
  check_stack();
  if (is_traced_value(o)) return flatten_leaf(o, out);
  if (o == Py_None) return out.key.push_back('N');
  if (out.symbolic && is_symbolic_number(o)) return flatten_symbolic(o, out);
  if (PyBool_Check(o)) return out.key.push_back(o == Py_True ? 't' : 'f');
  if (PyLong_CheckExact(o)) return flatten_int(o, out.key);
  if (PyFloat_CheckExact(o)) return put(out.key, 'F', PyFloat_AS_DOUBLE(o));
  if (PyUnicode_CheckExact(o)) return flatten_string(o, out.key);
  if (overrides_torch_functions(o)) {
    out.overriding = o;
    return;
  }
  if ((out.themselves && out.themselves->count(o)) || is_more_than_a_container(o)) return flatten_identity(o, out);
  if (PyTuple_Check(o) || PyList_Check(o)) return flatten_container(o, out);
  const auto* use = out.uses && out.uses->count(Py_TYPE(o)) ? &out.uses->at(Py_TYPE(o)) : nullptr;
  const bool by_identity = use && use->identity;
  // A dataclass first: transformers' outputs are dataclasses and dicts at once.
  if (PyObject* fields = dataclass_fields(o); fields && !by_identity) {
    if (!is_plain_object(o)) return flatten_dataclass(o, fields, out);
    Literally all(out);
    return flatten_object(o, out);
  }
  if (PyDict_Check(o)) return flatten_dict(o, out);
  if (!by_identity && is_plain_object(o)) return flatten_object(o, out);
  if (!by_identity && is_bare_partial(o)) return flatten_partial(o, out);
  if (!flatten_value(o, out)) flatten_identity(o, out);
}

bool is_symbolic_number(PyObject* o) {
  if (PyFloat_CheckExact(o) || is_numpy_float64(o)) {
    const double f = PyFloat_AS_DOUBLE(o);
    return std::isfinite(f) && f != 0 && std::abs(f) != 1;
  }
  if (!PyLong_CheckExact(o)) return false;
  int overflow = 0;
  const long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
  return !overflow && i >= 2 && i < (1ll << 31);
}

}  // namespace thunder::frontend
