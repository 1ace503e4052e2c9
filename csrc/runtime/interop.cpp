#include "runtime/interop.h"

#include <ATen/core/ivalue.h>
#include <torch/custom_class.h>

#include "python/literals.h"
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

template <class Items>
Ref sequence_to_python(const Items& items, bool tuple) {
  const auto n = static_cast<Py_ssize_t>(items.size());
  Ref out = checked(tuple ? PyTuple_New(n) : PyList_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = to_python(items[static_cast<size_t>(i)]).release();
    if (tuple) PyTuple_SET_ITEM(out.get(), i, item);
    else PyList_SET_ITEM(out.get(), i, item);
  }
  return out;
}

}  // namespace

Ref to_python(const c10::IValue& v) {
  if (v.isNone() || (v.isTensor() && !v.toTensor().defined())) return Ref::borrow(Py_None);
  if (v.isTensor()) return checked(THPVariable_Wrap(v.toTensor()));
  if (v.isBool()) return Ref::borrow(v.toBool() ? Py_True : Py_False);
  if (v.isInt()) return checked(PyLong_FromLongLong(v.toInt()));
  if (v.isDouble()) return checked(PyFloat_FromDouble(v.toDouble()));
  if (v.isComplexDouble()) {
    c10::complex<double> c = v.toComplexDouble();
    return checked(PyComplex_FromDoubles(c.real(), c.imag()));
  }
  if (v.isString())
    return checked(
        PyUnicode_FromStringAndSize(v.toStringRef().data(), static_cast<Py_ssize_t>(v.toStringRef().size())));
  if (v.isDevice()) return checked([&] { return device_to_python(v.toDevice().str()); });
  if (v.isTuple()) return sequence_to_python(v.toTupleRef().elements(), true);
  if (v.isList()) return sequence_to_python(v.toListRef(), false);
  if (v.isCapsule())
    if (auto* o = dynamic_cast<Opaque*>(v.toCapsule().get()))
      return Ref::borrow(static_cast<PyObject*>(o->object.get()));
  PyErr_Format(PyExc_TypeError, "a %s has no Python equivalent here", v.tagKind().c_str());
  throw_python_error();
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

}  // namespace thunder
