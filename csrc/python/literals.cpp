#include "python/literals.h"

#include "core/error.h"
#include "python/stack.h"
#include "python/text.h"

namespace thunder {
namespace {

using ToObject = std::function<Ref(const Arg&)>;
using ToArg = std::function<std::optional<Arg>(PyObject*)>;

Ref sequence_to_python(const ArgList& items, bool tuple, const ToObject& other) {
  const auto n = static_cast<Py_ssize_t>(items.size());
  Ref out = Ref::steal(tuple ? PyTuple_New(n) : PyList_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = literal_to_python(items[static_cast<size_t>(i)], other).release();
    if (tuple) PyTuple_SET_ITEM(out.get(), i, item);
    else PyList_SET_ITEM(out.get(), i, item);
  }
  return out;
}

Ref dict_to_python(const std::vector<std::pair<Arg, Arg>>& entries, const ToObject& other) {
  Ref out = Ref::steal(PyDict_New());
  for (const auto& [key, item] : entries) {
    const Ref k = literal_to_python(key, other), v = literal_to_python(item, other);
    if (PyDict_SetItem(out.get(), k.get(), v.get()) != 0) throw PythonError();
  }
  return out;
}

Ref slice_to_python(const SliceArg& s, const ToObject& other) {
  const Ref start = literal_to_python(s.start, other), stop = literal_to_python(s.stop, other);
  const Ref step = literal_to_python(s.step, other);
  return Ref::steal(PySlice_New(start.get(), stop.get(), step.get()));
}

Ref constant_to_python(const std::string& constant) {
  if (constant == "...") return Ref::borrow(Py_Ellipsis);
  for (const auto& [object, name] : literal_objects().constants)
    if (name == constant) return object;
  throw Error(ErrorKind::Value, cat("[constant] PyTorch has no ", constant));
}

Ref no_object(const Arg& a, const ToObject& other) {
  if (other) return other(a);
  PyErr_SetString(PyExc_TypeError, "a value has no Python object before the program runs");
  throw PythonError();
}

Arg int_from_python(PyObject* o) {
  int overflow = 0;
  long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow == 0) return Arg(static_cast<int64_t>(i));
  const unsigned long long bits = PyLong_AsUnsignedLongLong(o);
  if (bits == static_cast<unsigned long long>(-1) && PyErr_Occurred()) throw PythonError();
  throw Error(ErrorKind::Runtime, cat("[int] the value ", bits, " cannot be converted to int64 without overflow"));
}

Arg sequence_from_python(PyObject* o, const ToArg& other) {
  check_stack();
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  ArgList items;
  items.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) items.push_back(literal_from_python(PySequence_Fast_GET_ITEM(o, i), other));
  return PyTuple_Check(o) ? Arg::tuple(std::move(items)) : Arg::list(std::move(items));
}

Arg dict_from_python(PyObject* o, const ToArg& other) {
  std::vector<std::pair<Arg, Arg>> items;
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(o, &pos, &key, &value);)
    items.emplace_back(literal_from_python(key, other), literal_from_python(value, other));
  return Arg::dict(std::move(items));
}

Arg slice_from_python(PyObject* o, const ToArg& other) {
  auto* s = reinterpret_cast<PySliceObject*>(o);
  return Arg::slice(literal_from_python(s->start, other), literal_from_python(s->stop, other),
                    literal_from_python(s->step, other));
}

// NumPy scalars and the like: things that say what Python number they are.
std::optional<Arg> number_like(PyObject* o) {
  const std::string_view type = Py_TYPE(o)->tp_name;
  // PyTorch takes a NumPy bool for a number, and no bool.
  if (type == "numpy.bool" || type == "numpy.bool_") return Arg(PyObject_IsTrue(o) == 1 ? 1.0 : 0.0);
  if (PyIndex_Check(o)) {
    PyObject* i = PyNumber_Index(o);
    if (i) return int_from_python(Ref::steal(i).get());
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError();
    PyErr_Clear();  // an array of several numbers
    return std::nullopt;
  }
  if (Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float) {
    const Ref f = Ref::steal(PyNumber_Float(o));
    return Arg(PyFloat_AS_DOUBLE(f.get()));
  }
  return std::nullopt;
}

std::optional<Arg> object_from_python(PyObject* o) {
  const LiteralObjects& objects = literal_objects();
  for (size_t i = 0; i < objects.dtypes.size(); ++i)
    if (objects.dtypes[i].get() == o) return static_cast<DType>(i);
  for (const auto& [object, name] : objects.constants)
    if (object.get() == o) return ConstantArg{name};
  for (const auto& [object, dtype] : objects.more_dtypes)
    if (object.get() == o) return dtype;
  if (Py_TYPE(o) != reinterpret_cast<PyTypeObject*>(objects.device_class.get())) return std::nullopt;
  const Ref text = Ref::steal(PyObject_Str(o));
  return Device::parse(utf8(text.get()));
}

}  // namespace

LiteralObjects& literal_objects() {
  static LiteralObjects* o = new LiteralObjects();  // never destroyed: Python may be gone by then
  return *o;
}

Ref dtype_to_python(DType t) { return literal_objects().dtypes.at(static_cast<size_t>(t)); }

Ref device_to_python(const Device& d) { return device_to_python(d.str()); }

Ref device_to_python(const std::string& name) {
  return Ref::steal(PyObject_CallFunction(literal_objects().device_class.get(), "s", name.c_str()));
}

Ref literal_to_python(const Arg& a, const ToObject& other) {
  switch (a.kind()) {
    case Arg::Kind::None: return Ref::borrow(Py_None);
    case Arg::Kind::Bool: return Ref::borrow(a.boolean() ? Py_True : Py_False);
    case Arg::Kind::Int:
      return a.dim().is_constant() ? Ref::steal(PyLong_FromLongLong(a.dim().constant())) : no_object(a, other);
    case Arg::Kind::Float: return Ref::steal(PyFloat_FromDouble(a.real()));
    case Arg::Kind::Complex: return Ref::steal(PyComplex_FromDoubles(a.complex().real(), a.complex().imag()));
    case Arg::Kind::Str:
      return Ref::steal(PyUnicode_FromStringAndSize(a.str().data(), static_cast<Py_ssize_t>(a.str().size())));
    case Arg::Kind::DType: return dtype_to_python(a.dtype());
    case Arg::Kind::Device: return device_to_python(a.device());
    case Arg::Kind::Slice: return slice_to_python(a.slice(), other);
    case Arg::Kind::Constant: return constant_to_python(a.constant().name);
    case Arg::Kind::Opaque: return Ref::borrow(static_cast<PyObject*>(a.opaque().object.get()));
    case Arg::Kind::List:
    case Arg::Kind::Tuple: return sequence_to_python(a.items(), a.kind() == Arg::Kind::Tuple, other);
    case Arg::Kind::Dict: return dict_to_python(a.entries(), other);
    case Arg::Kind::Value: break;
  }
  return no_object(a, other);
}

Arg literal_from_python(PyObject* o, const ToArg& other) {
  if (o == Py_None) return nullptr;
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_CheckExact(o)) return int_from_python(o);
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o);
  if (PyUnicode_CheckExact(o)) return utf8(o);
  if (std::optional<Arg> a = other(o)) return *a;
  if (PyLong_Check(o)) return int_from_python(o);
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (PyUnicode_Check(o)) return utf8(o);
  if (PyTuple_Check(o) || PyList_Check(o)) return sequence_from_python(o, other);
  if (o == Py_Ellipsis) return ConstantArg{"..."};
  if (PySlice_Check(o)) return slice_from_python(o, other);
  if (PyComplex_Check(o)) {
    const Py_complex c = PyComplex_AsCComplex(o);
    return std::complex<double>(c.real, c.imag);
  }
  if (PyDict_Check(o)) return dict_from_python(o, other);
  if (std::optional<Arg> a = object_from_python(o)) return *a;
  if (std::optional<Arg> number = number_like(o)) return *number;
  return opaque_arg(o);
}

Arg opaque_arg(PyObject* o) { return OpaqueArg{std::string("_") + Py_TYPE(o)->tp_name, hold_python(o)}; }

}  // namespace thunder
