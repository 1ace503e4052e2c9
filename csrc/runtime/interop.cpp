#include "runtime/interop.h"

#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>
#include <torch/custom_class.h>

#include "core/error.h"
#include "runtime/convert.h"
#include "runtime/python_error.h"
#include "runtime/torch_py.h"

namespace thunder {
namespace {

// A Python object in a register.
struct Opaque final : torch::CustomClassHolder {
  explicit Opaque(std::shared_ptr<void> o) : object(std::move(o)) {}
  std::shared_ptr<void> object;
};

PyObject* torch_module() {
  static PyObject* module = PyImport_ImportModule("torch");
  return module;
}

PyObject* torch_attribute(const std::string& name) { return PyObject_GetAttrString(torch_module(), name.c_str()); }

PyObject* device_object(const std::string& text) {
  return PyObject_CallMethod(torch_module(), "device", "s", text.c_str());
}

template <class Items, class F>
PyObject* make_sequence(const Items& items, bool tuple, F&& convert) {
  auto n = static_cast<Py_ssize_t>(items.size());
  PyObject* out = tuple ? PyTuple_New(n) : PyList_New(n);
  if (!out) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = convert(items[static_cast<size_t>(i)]);
    if (!item) {
      Py_DECREF(out);
      return nullptr;
    }
    if (tuple) PyTuple_SET_ITEM(out, i, item);
    else PyList_SET_ITEM(out, i, item);
  }
  return out;
}

PyObject* slice_object(const SliceArg& s) {
  PyObject *start = literal_to_python(s.start), *stop = literal_to_python(s.stop), *step = literal_to_python(s.step);
  PyObject* out = start && stop && step ? PySlice_New(start, stop, step) : nullptr;
  Py_XDECREF(start);
  Py_XDECREF(stop);
  Py_XDECREF(step);
  return out;
}

PyObject* dict_object(const std::vector<std::pair<Arg, Arg>>& entries) {
  PyObject* out = PyDict_New();
  for (const auto& [key, item] : entries) {
    PyObject *k = literal_to_python(key), *v = literal_to_python(item);
    bool ok = k && v && PyDict_SetItem(out, k, v) == 0;
    Py_XDECREF(k);
    Py_XDECREF(v);
    if (ok) continue;
    Py_DECREF(out);
    return nullptr;
  }
  return out;
}

}  // namespace

std::shared_ptr<void> hold_python(PyObject* borrowed) {
  Py_INCREF(borrowed);
  return std::shared_ptr<void>(borrowed, [](void* p) {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(static_cast<PyObject*>(p));
    PyGILState_Release(state);
  });
}

PyObject* to_python(const c10::IValue& v) {
  if (v.isTensor()) {
    const at::Tensor& t = v.toTensor();
    if (!t.defined()) Py_RETURN_NONE;
    return THPVariable_Wrap(t);
  }
  if (v.isNone()) Py_RETURN_NONE;
  if (v.isBool()) return PyBool_FromLong(v.toBool());
  if (v.isInt()) return PyLong_FromLongLong(v.toInt());
  if (v.isDouble()) return PyFloat_FromDouble(v.toDouble());
  if (v.isComplexDouble()) {
    c10::complex<double> c = v.toComplexDouble();
    return PyComplex_FromDoubles(c.real(), c.imag());
  }
  if (v.isString())
    return PyUnicode_FromStringAndSize(v.toStringRef().data(), static_cast<Py_ssize_t>(v.toStringRef().size()));
  if (v.isDevice()) return device_object(v.toDevice().str());
  if (v.isTuple())
    return make_sequence(v.toTupleRef().elements(), true, [](const c10::IValue& i) { return to_python(i); });
  if (v.isList()) return make_sequence(v.toListRef(), false, [](const c10::IValue& i) { return to_python(i); });
  if (v.isIntList() || v.isDoubleList() || v.isBoolList() || v.isTensorList())
    return make_sequence(v.toList().vec(), false, [](const c10::IValue& i) { return to_python(i); });
  if (v.isCapsule()) {
    if (auto* o = dynamic_cast<Opaque*>(v.toCapsule().get())) {
      PyObject* p = static_cast<PyObject*>(o->object.get());
      Py_INCREF(p);
      return p;
    }
  }
  PyErr_Format(PyExc_TypeError, "a %s has no Python equivalent here", v.tagKind().c_str());
  return nullptr;
}

c10::IValue from_python(PyObject* o) {
  if (o == Py_None) return {};
  if (torch_py::is_tensor(o)) return torch_py::tensor(o);
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_CheckExact(o)) {
    int overflow = 0;
    long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow == 0) return static_cast<int64_t>(i);
  }
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  if (PyComplex_CheckExact(o)) {
    Py_complex c = PyComplex_AsCComplex(o);
    return c10::complex<double>(c.real, c.imag);
  }
  return c10::IValue::make_capsule(c10::make_intrusive<Opaque>(hold_python(o)));
}

PyObject* literal_to_python(const Arg& a) {
  switch (a.kind()) {
    case Arg::Kind::None: Py_RETURN_NONE;
    case Arg::Kind::Bool: return PyBool_FromLong(a.boolean());
    case Arg::Kind::Int: return PyLong_FromLongLong(a.dim().constant());
    case Arg::Kind::Float: return PyFloat_FromDouble(a.real());
    case Arg::Kind::Complex: return PyComplex_FromDoubles(a.complex().real(), a.complex().imag());
    case Arg::Kind::Str: return PyUnicode_FromStringAndSize(a.str().data(), static_cast<Py_ssize_t>(a.str().size()));
    case Arg::Kind::DType: return torch_attribute(std::string(torch_name(a.dtype())));
    case Arg::Kind::Device: return device_object(a.device().str());
    case Arg::Kind::List:
    case Arg::Kind::Tuple:
      return make_sequence(a.items(), a.kind() == Arg::Kind::Tuple, [](const Arg& i) { return literal_to_python(i); });
    case Arg::Kind::Dict: return dict_object(a.entries());
    case Arg::Kind::Slice: return slice_object(a.slice());
    case Arg::Kind::Constant:
      if (a.constant().name == "...") return Py_NewRef(Py_Ellipsis);
      return torch_attribute(a.constant().name.substr(a.constant().name.rfind('.') + 1));
    case Arg::Kind::Opaque: return Py_NewRef(static_cast<PyObject*>(a.opaque().object.get()));
    case Arg::Kind::Value: break;
  }
  PyErr_SetString(PyExc_TypeError, "a value has no Python object before the program runs");
  return nullptr;
}

}  // namespace thunder
