#include "frontend/plain_numbers.h"

#include <algorithm>
#include <unordered_set>

#include "frontend/c_methods.h"
#include "frontend/effect.h"
#include "frontend/hooks.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/kinds.h"
#include "python/lookup.h"
#include "python/text.h"

namespace thunder::frontend {
namespace {

using interpreter::Operands;

// Python's own number that a traced one is; the program holds for this one alone.
Ref plain(PyObject* number) {
  interpreter::NotInterpreting scope;
  return Ref::steal(PyObject_CallMethod(number, "_known", "s", "item"));
}

void set(PyObject** place, Ref value) {
  PyObject* before = std::exchange(*place, value.release());
  Py_DECREF(before);
}

// Whether it is a bool or complex, of which Python asks nothing without knowing it.
bool has_no_arithmetic(PyObject* o) { return reinterpret_cast<PyObject*>(Py_TYPE(o)) == hooks().number_class.get(); }

// A number of the same type; null where the type is not known.
PyObject* example(PyObject* number) {
  static PyObject *zero = PyLong_FromLong(0), *real = PyFloat_FromDouble(0);
  const auto* type = reinterpret_cast<PyObject*>(Py_TYPE(number));
  return type == hooks().int_class.get() ? zero : type == hooks().float_class.get() ? real : nullptr;
}

// One that has the type and, where that does not tell it, the value.
Ref like(PyObject* number) {
  if (PyObject* of = class_of_number(number)) return Ref::steal(PyObject_CallNoArgs(of));
  PyObject* same_type = example(number);
  return same_type ? Ref::borrow(same_type) : plain(number);
}

bool is_python_class(PyTypeObject* type) {
  for (; type && type != &PyBaseObject_Type; type = type->tp_base)
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) return false;
  return true;
}

bool is_sequence(PyObject* o) { return PyTuple_Check(o) || PyList_Check(o); }
bool is_keyed(PyObject* o) { return PyDict_Check(o) || PyAnySet_Check(o); }

// Whether operators of its type are C code that knows nothing of traced numbers.
bool is_foreign(PyObject* o) {
  const bool number = is_traced_number(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o);
  if (number || PyBool_Check(o) || o == Py_None || is_tensor(o) || is_sequence(o) || is_keyed(o)) return false;
  return !PySlice_Check(o) && !is_python_class(Py_TYPE(o));
}

// Visits the places of what holds numbers, one by one, so that how deep they are nested does not matter.
class Walk {
 public:
  explicit Walk(const std::function<bool(PyObject*)>& may_hold) : may_hold_(may_hold) {}

  void operator()(PyObject** place) {
    visit(place);
    while (!open_.empty()) {
      const Ref next = std::move(open_.back());
      open_.pop_back();
      contents(next.get());
    }
  }

 private:
  void visit(PyObject** place) {
    if (*place && is_traced_number(*place)) return set(place, plain(*place));
    hold(*place);
  }
  void hold(PyObject* o) {
    if (o && PyObject_IS_GC(o) && holds(o) && seen_.insert(o).second) open_.push_back(Ref::borrow(o));
  }
  bool holds(PyObject* o) const {
    if (is_tensor(o) || PyType_Check(o) || PyModule_Check(o) || PyFunction_Check(o) || is_module(o)) return false;
    if (PyTuple_Check(o) || PySlice_Check(o) || PyFrozenSet_Check(o)) return true;
    PyObject* dict = attributes(o);
    return may_hold_(o) || (dict && may_hold_(dict));
  }
  void contents(PyObject* o) {
    if (PyTuple_Check(o)) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) visit(&reinterpret_cast<PyTupleObject*>(o)->ob_item[i]);
    } else if (PyList_Check(o)) {
      for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); ++i) visit(&reinterpret_cast<PyListObject*>(o)->ob_item[i]);
    } else if (PySlice_Check(o)) {
      auto* s = reinterpret_cast<PySliceObject*>(o);
      for (PyObject** part : {&s->start, &s->stop, &s->step}) visit(part);
    } else if (PyDict_Check(o)) {
      entries(o);
    } else if (is_deque(o)) {
      for (Py_ssize_t i = 0, n = PyObject_Size(o); i < n; ++i)
        item(Ref::steal(PySequence_GetItem(o, i)), [&](PyObject* now) { return PySequence_SetItem(o, i, now); });
    }
    if (PyObject* dict = attributes(o)) entries(dict);
    each_slot(o, [&](PyObject* name, PyObject* value) {
      item(Ref::borrow(value), [&](PyObject* now) { return PyObject_GenericSetAttr(o, name, now); });
    });
  }
  // Keys are Python's own, as looking one up needs them.
  void entries(PyObject* dict) {
    PyObject *key, *value;
    for (Py_ssize_t pos = 0; PyDict_Next(dict, &pos, &key, &value);)
      item(Ref::borrow(value),
           [&, name = Ref::borrow(key)](PyObject* now) { return PyDict_SetItem(dict, name.get(), now); });
  }
  template <class Store>
  void item(const Ref& value, const Store& store) {
    if (!is_traced_number(value.get())) return hold(value.get());
    if (store(plain(value.get()).get()) < 0) throw PythonError();
  }

  const std::function<bool(PyObject*)>& may_hold_;
  std::vector<Ref> open_;
  std::unordered_set<PyObject*> seen_;
};

bool begins_with_one_of(std::string_view name, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view s) { return name.starts_with(s); });
}

// Modules whose functions and classes ask what they are given by Python's protocols alone.
bool hands_on(std::string_view module) {
  return begins_with_one_of(module, {"torch", "thunder", "operator", "_operator", "functools", "_functools",
                                     "itertools", "collections", "_collections", "copy", "_abc", "types", "math"});
}

std::string module_of(PyObject* o) {
  PyObject* module = PyModule_Check(o) ? PyModule_GetNameObject(o) : PyObject_GetAttrString(o, "__module__");
  if (!module) PyErr_Clear();
  std::string name = module && PyUnicode_Check(module) ? printable(module) : "";
  Py_XDECREF(module);
  return name;
}

PlainNumbers::Callee callee(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return {callable};
  return {callable, PyCFunction_GET_SELF(callable), reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name};
}

}  // namespace

void PlainNumbers::make_plain(PyObject** place) const {
  if (!any_numbers()) return;
  Walk walk(may_hold_);
  walk(place);
}

void PlainNumbers::make_plain(Ref& o) const {
  PyObject* place = o.get();
  const Ref held = Ref::borrow(place);
  if (is_traced_number(place)) o = plain(place);
  else make_plain(&place);
}

void PlainNumbers::operands(Operands kind, PyObject** first) const {
  if (!any_numbers()) return;
  auto shallow = [](PyObject** place) {
    if (is_traced_number(*place)) set(place, plain(*place));
  };
  if (kind == Operands::Key) return make_plain(first);
  if (kind == Operands::Attribute) {
    PyObject* object = first[1];
    if (is_foreign(object) && !dict_place(object)) make_plain(first);
    return;
  }
  if (kind == Operands::Store) {
    if (is_foreign(first[1])) make_plain(first);
    ++first;  // the object and the key
    kind = Operands::Subscript;
  }
  for (int i = 0; i < 2; ++i)
    if (is_traced_number(first[i]) && has_no_arithmetic(first[i])) shallow(first + i);
  if (kind == Operands::Identity) return;
  if (kind == Operands::Subscript) {
    shallow(first);
    if (is_sequence(first[0])) shallow(first + 1);
  }
  PyObject* object = first[kind == Operands::Membership];
  const bool keyed = kind != Operands::Operator && is_keyed(object);
  if (keyed || is_foreign(first[0]) || is_foreign(first[1]))
    for (int i = 0; i < 2; ++i)
      if (first[i] != object || !keyed) make_plain(first + i);
}

// ---- questions about the number -------------------------------------------------------------------------------------

std::optional<PyObject*> PlainNumbers::attribute(PyObject* object, PyObject* name) const {
  if (!any_numbers() || !is_traced_number(object) || in_library()) return std::nullopt;
  static PyObject* type = PyUnicode_InternFromString("__class__");
  Ref number = like(object);
  if (PyUnicode_Compare(name, type) != 0 && class_attribute(Py_TYPE(number.get()), name)) number = plain(object);
  return PyObject_GetAttr(number.get(), name);
}

std::optional<PyObject*> PlainNumbers::answer(PyObject* callable, PyObject* const* arguments, size_t n) const {
  if (!any_numbers() || n == 0 || !is_traced_number(arguments[0])) return std::nullopt;
  if (callable == reinterpret_cast<PyObject*>(&PyType_Type) && n == 1)
    return Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(like(arguments[0]).get())));
  if (!PyCFunction_Check(callable) || n < 2 || in_library()) return std::nullopt;
  PyObject* module = PyCFunction_GET_SELF(callable);
  if (!module || !PyModule_Check(module) || module_of(module) != "builtins") return std::nullopt;
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  if (!one_of(name, {"isinstance", "hasattr", "getattr"})) return std::nullopt;
  Ref number = like(arguments[0]);
  if (name == "getattr" && PyUnicode_Check(arguments[1]) && class_attribute(Py_TYPE(number.get()), arguments[1]))
    number = plain(arguments[0]);
  std::vector<PyObject*> given(arguments, arguments + n);
  given[0] = number.get();
  return PyObject_Vectorcall(callable, given.data(), n, nullptr);
}

std::optional<PyObject*> PlainNumbers::function(std::string_view name, PyObject* const* arguments, size_t n) const {
  if (!any_numbers() || std::none_of(arguments, arguments + n, is_traced_number)) return std::nullopt;
  static PyObject* of_numbers =
      PyObject_GetAttrString(Ref::steal(PyImport_ImportModule("thunder._numbers")).get(), "math_function");
  const Ref text = Ref::steal(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  std::vector<PyObject*> given = {text.get()};
  given.insert(given.end(), arguments, arguments + n);
  interpreter::NotInterpreting scope;
  PyObject* answer = PyObject_Vectorcall(of_numbers, given.data(), given.size(), nullptr);
  if (answer != Py_None) return answer;
  Py_DECREF(answer);
  return std::nullopt;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

bool PlainNumbers::keeps_what_it_is_given(PyTypeObject* type) const {
  if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) return true;
  while (type->tp_base && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE))
    type = type->tp_base;
  // float() and int() of a traced number are the tracer's to answer; str() and the like ask it.
  static const auto kKept = {
      &PyBaseObject_Type, &PyType_Type,         &PySuper_Type,       &PyList_Type,    &PyTuple_Type,    &PyDict_Type,
      &PyEnum_Type,       &PyZip_Type,          &PyMap_Type,         &PyFilter_Type,  &PyReversed_Type, &PySlice_Type,
      &PyRange_Type,      &PyLong_Type,         &PyFloat_Type,       &PyComplex_Type, &PyBool_Type,     &PyUnicode_Type,
      &PyProperty_Type,   &PyStaticMethod_Type, &PyClassMethod_Type, &PyMethod_Type,  &PyCell_Type};
  return std::find(kKept.begin(), kKept.end(), type) != kKept.end() || PyType_IsSubtype(type, hooks().tensor_class) ||
         hands_on(module_of(reinterpret_cast<PyObject*>(type)));
}

bool PlainNumbers::keeps_what_it_is_given(const Callee& c) const {
  if (calls_.meaning(c.callable)) return true;
  if (PyType_Check(c.callable)) return keeps_what_it_is_given(reinterpret_cast<PyTypeObject*>(c.callable));
  if (PyObject* self = c.self; self && !PyModule_Check(self)) {
    // A method.  Sets look up what they are given.
    if (PyAnySet_Check(self)) return false;
    if (PyDict_Check(self)) return !one_of(c.name, {"get", "pop", "setdefault", "__getitem__", "__setitem__"});
    if (PyType_Check(self))
      return keeps_what_it_is_given(reinterpret_cast<PyTypeObject*>(self)) && c.name != "fromkeys";
    const bool waits = PyGen_CheckExact(self) || PyCoro_CheckExact(self) || PyAsyncGen_CheckExact(self);
    return waits || !is_foreign(self) || is_native_iterator(self) || keeps_what_it_is_given(Py_TYPE(self));
  }
  const std::string module = module_of(c.self ? c.self : c.callable);
  if (module == "builtins")
    return !one_of(c.name, {"chr", "bin", "hex", "oct", "dir", "compile", "memoryview", "breakpoint"});
  if (hands_on(module)) return true;
  return c.name.empty() && hands_on(module_of(reinterpret_cast<PyObject*>(Py_TYPE(c.callable))));
}

bool PlainNumbers::reads_digits(const Callee& c, PyObject* const* arguments, size_t n) const {
  auto is_python = [](PyObject* o) { return PyFunction_Check(o) || PyMethod_Check(o); };
  auto calls_back = [&](PyObject* o) { return is_python(o) || (!is_tensor(o) && is_python_object(o)); };
  if (is_python(c.callable)) return false;
  // Without numbers only a callback's result may become one.
  const bool plain_c = PyCFunction_Check(c.callable) || PyType_Check(c.callable);
  if (!any_numbers() && plain_c && std::none_of(arguments, arguments + n, calls_back)) return false;
  if (is_partial(c.callable)) {
    const Ref function = Ref::steal(PyObject_GetAttrString(c.callable, "func"));
    return reads_digits(callee(function.get()), arguments, n);
  }
  if (!PyType_Check(c.callable)) {
    static PyObject* call = PyUnicode_InternFromString("__call__");
    if (PyObject* found = class_attribute(Py_TYPE(c.callable), call); found && PyFunction_Check(found)) return false;
  }
  if (!keeps_what_it_is_given(c)) return true;
  // float() of an object takes no other number from its __float__().
  const bool converts = c.callable == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
                        c.callable == reinterpret_cast<PyObject*>(&PyLong_Type) ||
                        c.callable == reinterpret_cast<PyObject*>(&PyComplex_Type);
  if (converts && n > 0 && !is_traced_number(arguments[0]) && calls_back(arguments[0])) return true;
  // What it hands numbers on to may read them: map(math.exp, numbers), groupby(numbers, type).
  return std::any_of(arguments, arguments + n, [&](PyObject* o) {
    if (PyType_Check(o)) return o == reinterpret_cast<PyObject*>(&PyType_Type);
    const bool called = PyCallable_Check(o) && !is_tensor(o) && !is_traced_number(o) && !is_python(o);
    return called && reads_digits(callee(o), nullptr, 0);
  });
}

void PlainNumbers::make_keys_plain(const Callee& c, PyObject* const* arguments, size_t n, PyObject* result) const {
  if (!any_numbers()) return;
  PyObject* dict = PyType_Check(c.callable) ? result : c.name == "_count_elements" && n > 0 ? arguments[0] : c.self;
  const bool many = PyType_Check(c.callable) || one_of(c.name, {"update", "__init__", "__ior__", "_count_elements"});
  if (!many || !dict || !PyDict_Check(dict)) return;
  const Ref items = Ref::steal(PyDict_Items(dict));
  bool any = false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject** key = &reinterpret_cast<PyTupleObject*>(PyList_GET_ITEM(items.get(), i))->ob_item[0];
    PyObject* before = *key;
    any = any || is_traced_number(before) || PyTuple_Check(before);
    make_plain(key);
  }
  if (!any) return;
  const Ref pairs = Ref::steal(PyDict_New());
  if (PyDict_MergeFromSeq2(pairs.get(), items.get(), 1) < 0 || !set_contents(dict, pairs.get())) throw PythonError();
}

PlainNumbers::Call::Call(PlainNumbers& numbers, const Callee& c, PyObject* const* arguments, size_t n)
    : numbers_(numbers), before_(numbers.outside_) {
  // Of a dict's and a set's methods what they look up is read, not what is there.
  const bool looks_up = c.self && is_keyed(c.self);
  bool found = false;
  for (size_t i = 0; i < n; ++i) {
    Ref argument = Ref::borrow(arguments[i]);
    const bool read = !looks_up || (arguments[i] != c.self && !(found && PyDict_Check(c.self)));
    if (read) numbers.make_plain(argument);
    found = found || read;
    given_.push_back(argument.get());
    owned_.push_back(std::move(argument));
  }
  if (!looks_up) numbers.outside_ = true;
}

PyObject* PlainNumbers::leave(PyObject* result) {
  outside_ = true;
  if (!result || PyGen_CheckExact(result)) return result;
  Ref given = Ref::steal(result);
  try {
    make_plain(given);
  } catch (const PythonError&) {
    return nullptr;
  }
  return given.release();
}

}  // namespace thunder::frontend
