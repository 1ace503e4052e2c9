#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"

#include <atomic>

#include "core/error.h"
#include "core/number.h"

namespace thunder::frontend {

Hooks& hooks() {
  static Hooks* h = new Hooks();  // never destroyed: holds Python objects, and Python may be gone by then
  return *h;
}

namespace {

constexpr const char* kCapsule = "thunder.Arg";

struct TracedNumber {
  Arg arg;
  uint64_t trace;  // that it was made in
  Ref hint;        // or None
  Ref of;          // its class, where that is not Python's own
};

std::atomic<uint64_t> traces{0};
thread_local uint64_t current_trace = 0;
thread_local bool numbers_made = false;

void free_number(PyObject* capsule) { delete static_cast<TracedNumber*>(PyCapsule_GetPointer(capsule, kCapsule)); }

const TracedNumber& inside(PyObject* number) {
  Ref capsule = Ref::steal(PyObject_GetAttrString(number, "_arg"));
  return *static_cast<TracedNumber*>(PyCapsule_GetPointer(capsule.get(), kCapsule));
}

Ref hint_of(const Arg& arg) {
  const ShapeEnv* env = ShapeEnv::current();
  const bool value = arg.is_value();
  const std::optional<Dim> size = value ? arg.value().type().number().dim : std::optional<Dim>(arg.dim());
  if (env && size) {
    bool known = true;
    Dim hint = size->substitute([&](SymbolId s) {
      known = known && env->hint(s);
      return Dim(env->hint(s).value_or(2));
    });
    if (known) return Ref::steal(PyLong_FromLongLong(hint.constant()));
  }
  if (env && value)
    if (const NumberPtr& expr = arg.value().type().number().expr)
      return Ref::steal(PyFloat_FromDouble(expr->hinted(*env)));
  return Ref::borrow(Py_None);
}

Arg int_to_arg(PyObject* o) {
  int overflow = 0;
  long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow == 0) return Arg(static_cast<int64_t>(i));
  const unsigned long long bits = PyLong_AsUnsignedLongLong(o);
  if (bits == static_cast<unsigned long long>(-1) && PyErr_Occurred()) throw PythonError();
  throw Error(ErrorKind::Runtime, cat("[int] the value ", bits, " cannot be converted to int64 without overflow"));
}

Arg sequence_to_arg(PyObject* o, const std::function<Arg(PyObject*)>& tensor) {
  interpreter::check_stack();
  Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  ArgList items;
  items.reserve(n);
  for (Py_ssize_t i = 0; i < n; ++i) items.push_back(to_arg(PySequence_Fast_GET_ITEM(o, i), tensor));
  return PyTuple_Check(o) ? Arg::tuple(std::move(items)) : Arg::list(std::move(items));
}

Arg dict_to_arg(PyObject* o, const std::function<Arg(PyObject*)>& tensor) {
  std::vector<std::pair<Arg, Arg>> items;
  PyObject *key, *value;
  for (Py_ssize_t pos = 0; PyDict_Next(o, &pos, &key, &value);)
    items.emplace_back(to_arg(key, tensor), to_arg(value, tensor));
  return Arg::dict(std::move(items));
}

std::string utf8(PyObject* o) {
  Py_ssize_t n = 0;
  const char* s = PyUnicode_AsUTF8AndSize(o, &n);
  if (!s) throw PythonError();
  return {s, static_cast<size_t>(n)};
}

// NumPy scalars and the like: things that say what Python number they are.
std::optional<Arg> number_like(PyObject* o) {
  const std::string_view type = Py_TYPE(o)->tp_name;
  // PyTorch takes a NumPy bool for a number, and no bool.
  if (type == "numpy.bool" || type == "numpy.bool_") return Arg(PyObject_IsTrue(o) == 1 ? 1.0 : 0.0);
  if (PyIndex_Check(o)) {
    PyObject* i = PyNumber_Index(o);
    if (i) return int_to_arg(Ref::steal(i).get());
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PythonError();
    PyErr_Clear();  // an array of several numbers
    return std::nullopt;
  }
  if (Py_TYPE(o)->tp_as_number && Py_TYPE(o)->tp_as_number->nb_float) {
    Ref f = Ref::steal(PyNumber_Float(o));
    return Arg(PyFloat_AS_DOUBLE(f.get()));
  }
  return std::nullopt;
}

Arg other_to_arg(PyObject* o) {
  Hooks& h = hooks();
  for (size_t i = 0; i < h.dtypes.size(); ++i)
    if (h.dtypes[i].get() == o) return static_cast<DType>(i);
  for (const auto& [object, name] : h.constants)
    if (object.get() == o) return ConstantArg{name};
  for (const auto& [object, dtype] : h.more_dtypes)
    if (object.get() == o) return dtype;
  if (Py_TYPE(o) == reinterpret_cast<PyTypeObject*>(h.torch_device.get())) {
    Ref text = Ref::steal(PyObject_Str(o));
    return Device::parse(utf8(text.get()));
  }
  if (is_traced_number(o)) return number_arg(o);
  if (std::optional<Arg> number = number_like(o)) return *number;
  return opaque_arg(o);
}

}  // namespace

Arg opaque_arg(PyObject* o) {
  Py_INCREF(o);
  std::shared_ptr<void> object(o, [](void* p) {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF(static_cast<PyObject*>(p));
    PyGILState_Release(gil);
  });
  return OpaqueArg{std::string("_") + Py_TYPE(o)->tp_name, std::move(object)};
}

Arg number_arg(PyObject* number) {
  const TracedNumber& n = inside(number);
  if (n.trace == current_trace || n.hint.get() == Py_None) return n.arg;
  return to_arg(n.hint.get(), [](PyObject*) -> Arg { return nullptr; });
}

Ref number_hint(PyObject* number) { return inside(number).hint; }

PyObject* class_of_number(PyObject* number) { return is_traced_number(number) ? inside(number).of.get() : nullptr; }

bool may_be_one(PyObject* number) {
  const ShapeEnv* env = ShapeEnv::current();
  const Arg arg = number_arg(number);
  const bool is_size = env && arg.kind() == Arg::Kind::Int;
  if (!is_size && !(env && arg.is_value() && arg.value().type().is_number() && arg.value().type().number().dim))
    return false;
  const std::vector<SymbolId> symbols = (is_size ? arg.dim() : *arg.value().type().number().dim).symbols();
  return std::any_of(symbols.begin(), symbols.end(), [&](SymbolId s) { return env->may_be_one(s); });
}

void begin_numbers() {
  current_trace = ++traces;
  numbers_made = false;
}

bool any_numbers() { return numbers_made; }

Arg to_arg(PyObject* o, const std::function<Arg(PyObject*)>& tensor) {
  if (o == Py_None) return nullptr;
  if (is_tensor(o)) return tensor(o);
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_Check(o)) return int_to_arg(o);
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (PyUnicode_Check(o)) return utf8(o);
  if (PyTuple_Check(o) || PyList_Check(o)) return sequence_to_arg(o, tensor);
  if (o == Py_Ellipsis) return ConstantArg{"..."};
  if (PySlice_Check(o)) {
    auto* s = reinterpret_cast<PySliceObject*>(o);
    return Arg::slice(to_arg(s->start, tensor), to_arg(s->stop, tensor), to_arg(s->step, tensor));
  }
  if (PyComplex_Check(o)) {
    Py_complex c = PyComplex_AsCComplex(o);
    return std::complex<double>(c.real, c.imag);
  }
  if (PyDict_Check(o)) return dict_to_arg(o, tensor);
  return other_to_arg(o);
}

Ref dtype_to_python(DType t) { return hooks().dtypes.at(static_cast<size_t>(t)); }

Ref device_to_python(const Device& d) {
  return Ref::steal(PyObject_CallFunction(hooks().torch_device.get(), "s", d.str().c_str()));
}

Ref make_number(const Arg& arg, PyObject* of) {
  numbers_made = true;
  auto* made = new TracedNumber{arg, current_trace, hint_of(arg), Ref::borrow(of)};
  Ref capsule = Ref::steal(PyCapsule_New(made, kCapsule, free_number));
  const Hooks& h = hooks();
  const Ref& type = arg.number_kind() == NumberKind::Int     ? h.int_class
                    : arg.number_kind() == NumberKind::Float ? h.float_class
                                                             : h.number_class;
  return Ref::steal(PyObject_CallOneArg(type.get(), capsule.get()));
}

Ref to_python(const Arg& a, const std::function<Ref(Value)>& value) {
  switch (a.kind()) {
    case Arg::Kind::None: return Ref::borrow(Py_None);
    case Arg::Kind::Bool: return Ref::borrow(a.boolean() ? Py_True : Py_False);
    case Arg::Kind::Int:
      return a.dim().is_constant() ? Ref::steal(PyLong_FromLongLong(a.dim().constant())) : make_number(a);
    case Arg::Kind::Float: return Ref::steal(PyFloat_FromDouble(a.real()));
    case Arg::Kind::Complex: return Ref::steal(PyComplex_FromDoubles(a.complex().real(), a.complex().imag()));
    case Arg::Kind::Str:
      return Ref::steal(PyUnicode_FromStringAndSize(a.str().data(), static_cast<Py_ssize_t>(a.str().size())));
    case Arg::Kind::DType: return dtype_to_python(a.dtype());
    case Arg::Kind::Device: return device_to_python(a.device());
    case Arg::Kind::Value: return value(a.value());
    case Arg::Kind::Slice: {
      Ref start = to_python(a.slice().start, value), stop = to_python(a.slice().stop, value);
      Ref step = to_python(a.slice().step, value);
      return Ref::steal(PySlice_New(start.get(), stop.get(), step.get()));
    }
    case Arg::Kind::Constant:
      if (a.constant().name == "...") return Ref::borrow(Py_Ellipsis);
      for (const auto& [object, name] : hooks().constants)
        if (name == a.constant().name) return object;
      THUNDER_ASSERT(false, "unknown constant ", a.constant().name);
    case Arg::Kind::Opaque: return Ref::borrow(static_cast<PyObject*>(a.opaque().object.get()));
    case Arg::Kind::List:
    case Arg::Kind::Tuple: {
      bool tuple = a.kind() == Arg::Kind::Tuple;
      Py_ssize_t n = static_cast<Py_ssize_t>(a.items().size());
      Ref out = Ref::steal(tuple ? PyTuple_New(n) : PyList_New(n));
      for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* item = to_python(a.items()[i], value).release();
        if (tuple) PyTuple_SET_ITEM(out.get(), i, item);
        else PyList_SET_ITEM(out.get(), i, item);
      }
      return out;
    }
    case Arg::Kind::Dict: break;
  }
  Ref out = Ref::steal(PyDict_New());
  for (const auto& [key, item] : a.entries()) {
    Ref k = to_python(key, value), v = to_python(item, value);
    if (PyDict_SetItem(out.get(), k.get(), v.get()) != 0) throw PythonError();
  }
  return out;
}

}  // namespace thunder::frontend
