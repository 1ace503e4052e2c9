#include "frontend/outside_calls.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "frontend/hooks.h"
#include "frontend/kinds.h"
#include "frontend/unseen.h"
#include "python/errors.h"
#include "python/lookup.h"
#include "python/mark.h"
#include "python/stack.h"
#include "python/text.h"

namespace thunder::frontend {
namespace {

// Reads nothing of what it is given but its type.
bool looks_at_types(std::string_view name) {
  return one_of(name, {"isinstance", "issubclass", "id", "callable", "print", "globals", "locals", "__build_class__",
                       "exec", "eval", "iter", "hash"});
}

Ref text(const char* s) { return Ref::steal(PyUnicode_InternFromString(s)); }

// A setting of PyTorch's.
bool asks_torch(PyObject* callable, std::string_view name) {
  if (!PyCFunction_Check(callable)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  PyObject* self = PyCFunction_GET_SELF(callable);
  if (!module && self && PyModule_Check(self)) module = PyModule_GetNameObject(self), Py_XDECREF(module);
  if (!module || !PyUnicode_Check(module) || !printable(module).starts_with("torch.")) return false;
  return name.starts_with("_get_") || name == "get_num_threads";
}

// The same objects in the same places, at the same keys.
bool same_contents(PyObject* a, PyObject* b) {
  if (PyDict_Check(a)) {
    if (PyDict_GET_SIZE(a) != PyDict_GET_SIZE(b)) return false;
    PyObject *k, *v, *l, *w;
    for (Py_ssize_t i = 0, j = 0; PyDict_Next(a, &i, &k, &v) && PyDict_Next(b, &j, &l, &w);)
      if (k != l || v != w) return false;
    return true;
  }
  if (PyAnySet_Check(a)) return PyObject_RichCompareBool(a, b, Py_EQ) == 1;
  if (PyList_GET_SIZE(a) != PyList_GET_SIZE(b)) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(a); ++i)
    if (PyList_GET_ITEM(a, i) != PyList_GET_ITEM(b, i)) return false;
  return true;
}

}  // namespace

// A function of C code may write to the containers that it is given.
PyObject* OutsideCalls::call_and_compare(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names) {
  size_t all = n + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  std::vector<std::pair<PyObject*, Ref>> before;
  for (size_t i = 0; i < all; ++i)
    if (is_container(arguments[i]) && !parts_.fresh.has(arguments[i]) && !PyODict_Check(arguments[i]))
      before.emplace_back(arguments[i], copy_of(arguments[i]));
  PyObject* result = PyObject_Vectorcall(callable, arguments, n, names);
  const KeepError pending;
  for (auto& [container, copy] : before) {
    Ref now = copy_of(container);
    if (same_contents(now.get(), copy.get())) continue;
    if (!set_contents(container, copy.get())) PyErr_Clear();
    parts_.writes.will_change(container);
    if (!set_contents(container, now.get())) PyErr_Clear();
  }
  return result;
}

PyObject* OutsideCalls::call_class(PyObject* type, PyObject* const* arguments, size_t n, PyObject* names) {
  size_t keywords = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
  auto* t = reinterpret_cast<PyTypeObject*>(type);
  if ((t == &PyFloat_Type || t == &PyLong_Type) && n == 1 && !names && is_traced_value(arguments[0])) {
    interpreter::NotInterpreting scope;
    try {
      if (Ref number = parts_.tracer.numbers().convert(type, arguments[0])) return number.release();
    } catch (...) {
      hooks().set_python_error();
      return nullptr;
    }
  }
  // A program sees the class of the tensor that a proxy stands for.  PyTorch takes a tensor of that class for real.
  if (t == &PyType_Type && n == 1 && is_proxy(arguments[0]) && !in_library())
    return Py_NewRef(reinterpret_cast<PyObject*>(hooks().tensor_class));
  if (t == &PyType_Type && n == 1) parts_.classes.read_type(arguments[0]);
  bool of_c = !(t->tp_flags & Py_TPFLAGS_HEAPTYPE);
  if (of_c && t != &PyType_Type && t != &PySuper_Type) parts_.deep.read_arguments(arguments, n + keywords);
  bool of_python = false;
  if (!of_c)
    for (const char* name : {"__new__", "__init__"}) {
      Ref key = text(name);
      PyObject* method = class_attribute(t, key.get());
      parts_.classes.read(t, key.get(), method);
      of_python = of_python || (method && PyFunction_Check(method));
      // What stands for a constructor leaves the call to eager.
      if (Ref by = method && PyFunction_Check(method) ? stands_for(method) : Ref()) {
        Ref made = Ref::steal(PyObject_Vectorcall(by.get(), &type, 1, nullptr));
        if (!made) return nullptr;
      }
    }
  for (size_t i = 0; !of_python && i < n + keywords; ++i) parts_.tracer.draws().open_all(arguments[i]);
  if (std::optional<StateOf> setting = setting_of_mode(type)) parts_.states.touch(std::move(*setting));
  constructing_.push_back(type);
  PyObject* result = PyObject_Vectorcall(type, arguments, n, names);
  constructing_.pop_back();
  if (result && is_tensor(result))
    std::for_each(arguments, arguments + n + keywords, [&](PyObject* a) { parts_.states.take_memory(a); });
  parts_.fresh.add_result(result);
  if (result && PyWeakref_Check(result)) parts_.fresh.add(result);
  if (result && PyType_Check(result) && n == 3) parts_.fresh.add(result);  // type(name, bases, namespace)
  return result;
}

void OutsideCalls::entered(PyObject* function, PyCodeObject* code, PyObject* first) {
  if (constructing_.empty() || !first || reinterpret_cast<PyObject*>(Py_TYPE(first)) != constructing_.back()) return;
  // Its code may have another name: a lambda's, a decorator's.
  static PyObject* init = PyUnicode_InternFromString("__init__");
  if ((function && class_attribute(Py_TYPE(first), init) == function) || PyUnicode_Compare(code->co_name, init) == 0) {
    parts_.fresh.add(first);
    constructing_.back() = nullptr;
  }
}

// A method of a dict that is about one key; nothing if it is about more.
std::optional<bool> OutsideCalls::before_entry_method(const CMethod& m) {
  if (!PyDict_Check(m.self) || m.n == 0) return std::nullopt;
  PyObject* key = m.arguments[0];
  bool deletes = m.name == "pop" || m.name == "__delitem__", writes = m.name == "setdefault" || m.name == "__setitem__";
  bool reads = one_of(m.name, {"get", "__contains__", "__getitem__"});
  if (!reads && !(PyDict_CheckExact(m.self) && (deletes || writes))) return std::nullopt;
  PyObject* found = PyDict_GetItemWithError(m.self, key);
  if (!found && PyErr_Occurred()) return false;
  if (!m.name.starts_with("__") || reads) parts_.containers.read_entry(m.self, key, found);
  if (reads || (found && m.name == "setdefault")) return true;
  return parts_.writes.write_entry(m.self, key, deletes ? nullptr : m.n > 1 ? m.arguments[1] : Py_None);
}

// Methods of lists, dicts, sets.
bool OutsideCalls::before_container_method(const CMethod& m) {
  if (std::optional<bool> of_an_entry = before_entry_method(m)) return *of_an_entry;
  if (PyList_Check(m.self) && (m.name == "append" || m.name == "extend")) parts_.writes.will_append(m.self);
  else if (changes_container(m.name)) parts_.writes.will_change(m.self);
  else if (m.name == "__len__") parts_.containers.read_length(m.self);
  else parts_.containers.read_whole(m.self);
  return true;
}

// object.__setattr__ and its like, called by name.
bool OutsideCalls::before_object_method(const CMethod& m) {
  const bool one = one_of(m.name, {"__setattr__", "__delattr__", "__getattribute__"});
  if (!one && m.name != "__init__" && m.name != "__hash__") parts_.uses.ask_everything(m.self);
  if (m.name == "__hash__") parts_.uses.ask_identity(m.self);
  if (m.n == 0 || !PyUnicode_Check(m.arguments[0])) return true;
  if (m.name == "__setattr__" || m.name == "__delattr__")
    return parts_.writes.write_attribute(m.self, m.arguments[0], m.n > 1 ? m.arguments[1] : nullptr, /*raw=*/true);
  if (m.name == "__getattribute__") parts_.attributes.read(m.self, m.arguments[0], nullptr);
  return true;
}

PyObject* OutsideCalls::call_builtin(const CMethod& m, PyObject* callable, PyObject* const* arguments, size_t n,
                                     PyObject* names) {
  bool named = n > 1 && PyUnicode_Check(arguments[1]);
  const size_t before = parts_.log.size();
  if (named && one_of(m.name, {"setattr", "delattr"}) &&
      !parts_.writes.write_attribute(arguments[0], arguments[1], n > 2 ? arguments[2] : nullptr))
    return nullptr;
  const bool remembered = parts_.log.size() > before;
  if (m.name == "len" && n == 1 && is_proxy(arguments[0]))
    if (PyObject* length = parts_.tracer.numbers().length(parts_.tracer.tensors().type_of(arguments[0])).release())
      return length;
  if (named && m.name == "getattr") {
    if (PyObject* counter = parts_.counters.attribute(arguments[0], arguments[1])) return counter;
    if (PyModule_Check(arguments[0]))
      if (PyObject* compiled = parts_.tracer.whether_compiled(PyModule_GetDict(arguments[0]), arguments[1]))
        return compiled;
  }
  if (n == 1 && (m.name == "id" || m.name == "hash")) parts_.uses.ask_identity(arguments[0]);
  if (m.name == "isinstance" && n == 2) parts_.classes.read_type(arguments[0]);
  if (m.name == "len" && n == 1) parts_.containers.read_length(arguments[0]);
  else if (m.name == "vars" && n == 1) {
    parts_.uses.ask_everything(arguments[0]);
    if (is_proxy(arguments[0])) parts_.uses.read_attribute_of_tensor(arguments[0], text("__dict__").get());
    if (PyObject** dict = dict_place(arguments[0]); dict && *dict)
      parts_.fresh.has(arguments[0]) ? parts_.fresh.add(*dict) : parts_.containers.read_whole(*dict);
  } else if (!looks_at_types(m.name) && !named) {
    parts_.deep.read_arguments(arguments, n + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0));
  }
  PyObject* result = PyObject_Vectorcall(callable, arguments, n, names);
  if (!result && remembered) parts_.log.forget(before);
  if (named && m.name == "getattr") parts_.attributes.read(arguments[0], arguments[1], result);
  if (named && m.name == "hasattr") parts_.attributes.read(arguments[0], arguments[1], nullptr);
  if ((m.name == "locals" || m.name == "__build_class__") && result) parts_.fresh.add(result);
  parts_.fresh.add_result(result);
  return result;
}

namespace {

bool holds_tensor(PyObject* o) {
  check_stack();
  if (!PyTuple_Check(o) && !PyList_Check(o)) return is_tensor(o);
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
    if (holds_tensor(PySequence_Fast_GET_ITEM(o, i))) return true;
  return false;
}

}  // namespace

// A bound method of a random generator.
static bool is_method_of_generator(PyObject* callable) {
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  return self && std::string_view(Py_TYPE(self)->tp_name) == "torch._C.Generator";
}

// As the type has it, which has a meaning.
std::optional<PyObject*> OutsideCalls::call_unbound(PyObject* callable, PyObject* const* arguments, size_t n,
                                                    PyObject* names) {
  PyObject* self = PyCFunction_GET_SELF(callable);
  Ref name = text(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name);
  PyObject* method = class_attribute(Py_TYPE(self), name.get());
  if (!method || PyCFunction_Check(method)) return std::nullopt;
  std::vector<PyObject*> given = {self};
  given.insert(given.end(), arguments, arguments + n + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0));
  return call_torch(method, given.data(), n + 1, names);
}

std::optional<PyObject*> OutsideCalls::call_torch(PyObject* callable, PyObject* const* arguments, size_t n,
                                                  PyObject* names) {
  const TorchFunction* f = parts_.tracer.calls().meaning(callable);
  if (!f && is_method_of_generator(callable)) return call_unbound(callable, arguments, n, names);
  if (!f || f->kind == TorchFunction::PassThrough || !(parts_.tracer.calls().takes_calls() || f->creates))
    return std::nullopt;
  // Where a tensor is expected PyTorch refuses a number before a torch function mode is asked, which the functions of
  // another language know nothing of.
  const size_t all = n + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  const bool of_language = parts_.tracer.calls().language() && f != find_torch_function(callable);
  const bool taken = f->creates || (of_language ? std::any_of(arguments, arguments + all, holds_tensor)
                                                : n > 0 && is_tensor(arguments[0]));
  if (!taken) return std::nullopt;
  parts_.states.take_arrays(true);
  parts_.deep.read_arguments(arguments, all);
  parts_.states.take_arrays(false);
  Ref positional = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(n)));
  for (size_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), Py_NewRef(arguments[i]));
  Ref keyword;
  if (names) keyword = Ref::steal(PyDict_New());
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
    if (PyDict_SetItem(keyword.get(), PyTuple_GET_ITEM(names, i), arguments[n + static_cast<size_t>(i)]) < 0)
      throw PythonError();
  interpreter::NotInterpreting scope;
  try {
    PyObject* result = parts_.tracer.calls().handle(callable, positional.get(), keyword.get()).release();
    if (!is_traced_value(result)) parts_.fresh.add_result(result);  // tolist()
    return result;
  } catch (...) {
    hooks().set_python_error();
    return nullptr;
  }
}

// operator.attrgetter and itemgetter: what they will read.  Whether the callable is one.
bool OutsideCalls::read_getter(PyObject* callable, PyObject* const* arguments, size_t n) {
  static PyObject* operators = PyImport_ImportModule("operator");
  static PyObject* attributes = PyObject_GetAttrString(operators, "attrgetter");
  static PyObject* items = PyObject_GetAttrString(operators, "itemgetter");
  bool item = reinterpret_cast<PyObject*>(Py_TYPE(callable)) == items;
  if (n != 1 || (!item && reinterpret_cast<PyObject*>(Py_TYPE(callable)) != attributes)) return false;
  Ref made_of = Ref::steal(PyObject_CallMethod(callable, "__reduce__", nullptr));
  PyObject* keys = PyTuple_GET_ITEM(made_of.get(), 1);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    if (item) {
      parts_.containers.read_item(arguments[0], key);
      continue;
    }
    Ref object = Ref::borrow(arguments[0]), dot = text(".");
    Ref names = Ref::steal(PyUnicode_Split(key, dot.get(), -1));
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(names.get()); ++j) {
      PyObject* value = PyObject_GetAttr(object.get(), PyList_GET_ITEM(names.get(), j));
      if (!value) PyErr_Clear();
      parts_.attributes.read(object.get(), PyList_GET_ITEM(names.get(), j), value);
      if (!value) break;
      object = Ref::steal(value);
    }
  }
  return true;
}

// PyTorch's, and none of the same name in another library.
static bool makes_tensors_of_memory(PyObject* callable, std::string_view name) {
  if (!one_of(name, {"from_numpy", "frombuffer", "from_dlpack"})) return false;
  static PyObject* torch = PyImport_ImportModule("torch");
  const Ref own = Ref::steal(PyObject_GetAttrString(torch, std::string(name).c_str()));
  if (!own) PyErr_Clear();
  return own.get() == callable;
}

PyObject* OutsideCalls::call_method(const CMethod& m, PyObject* callable, PyObject* const* arguments, size_t n,
                                    PyObject* names) {
  if (m.name == "_cuda_jiterator_compile_and_launch_kernel") {
    // It takes what tensors have for data as it is, and asks nobody.
    PyErr_SetString(
        PyExc_NotImplementedError,
        "[jiterator] a kernel of torch.cuda.jiterator cannot be launched inside a compiled function: make it "
        "an operator (torch.library.custom_op)");
    mark_error(Mark::Compiler);
    return nullptr;
  }
  if (!parts_.sharp.allow(callable, m.self, m.name)) return nullptr;
  if (!names && m.self && PyModule_Check(m.self) && std::strcmp(PyModule_GetName(m.self), "math") == 0)
    if (std::optional<PyObject*> answer = parts_.numbers.function(m.name, arguments, n)) return *answer;
  if (m.self && PyModule_Check(m.self) && std::strcmp(PyModule_GetName(m.self), "builtins") == 0)
    return call_builtin(m, callable, arguments, n, names);
  parts_.states.will_call(callable, m.self, m.arguments, m.n);
  if (m.self && m.name == "__dlpack__") parts_.states.take_memory(m.self);
  if (n == 0 && !names && !parts_.states.sets() && asks_torch(callable, m.name))
    return parts_.caching.call_setting(callable);
  PyObject* shown = m.self ? shown_by(m.self) : nullptr;
  if (shown != m.self) return call_method({m.name, shown, m.arguments, m.n, m.owned}, callable, arguments, n, names);
  bool container = m.self && is_container(m.self);
  if (m.self) parts_.fresh.will_advance(m.self);
  if (container && m.n) parts_.uses.ask_identity(m.arguments[0]);
  if (container && !parts_.fresh.has(m.self) && !before_container_method(m)) return nullptr;
  const size_t before = parts_.log.size();
  if (m.self && !container && m.name.starts_with("__") && !before_object_method(m)) return nullptr;
  const bool remembered = parts_.log.size() > before;
  const bool takes_arrays = find_torch_function(callable) || makes_tensors_of_memory(callable, m.name);
  parts_.states.take_arrays(takes_arrays);
  const size_t all = m.n + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  parts_.deep.read_arguments(m.arguments, all);
  // What is recorded takes an array as its tensor, where it can.
  const TorchFunction* recorded = find_torch_function(callable);
  if (takes_arrays && (!recorded || recorded->kind == TorchFunction::PassThrough))
    for (size_t i = 0; i < all; ++i) parts_.tracer.draws().open_all(m.arguments[i]);
  parts_.states.take_arrays(false);
  PyObject* result =
      container ? PyObject_Vectorcall(callable, arguments, n, names) : call_and_compare(callable, arguments, n, names);
  if (!result && remembered) parts_.log.forget(before);
  parts_.states.called(callable, m.self, result);
  parts_.drawing.called(m.self, m.name, result);
  parts_.fresh.add_result(result);
  return result;
}

// The text of source files and of the stack: what messages show of the program, on which it does not depend.
static bool reads_source(PyObject* callable) {
  static PyObject* files = PyModule_GetDict(PyImport_ImportModule("linecache"));
  static PyObject* stacks = PyModule_GetDict(PyImport_ImportModule("traceback"));
  if (!PyFunction_Check(callable)) return false;
  PyObject* globals = PyFunction_GET_GLOBALS(callable);
  if (globals != stacks) return globals == files;
  const auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable));
  return one_of(printable(code->co_name), {"extract_stack", "format_stack"});
}

std::optional<PyObject*> OutsideCalls::call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names) {
  if (std::optional<PyObject*> recorded = call_torch(callable, arguments, n, names)) return recorded;
  if (!parts_.sharp.allow_setting(callable)) return nullptr;
  if (PyObject* drawn = parts_.drawing.call(callable, arguments, n, names); drawn || PyErr_Occurred()) return drawn;
  if (CachingCalls::is_caching(callable)) return parts_.caching.call(callable, arguments, n, names);
  if (Ref function = stands_for(callable)) {
    if (std::optional<PyObject*> made = call(function.get(), arguments, n, names)) return made;
    return PyObject_Vectorcall(function.get(), arguments, n, names);
  }
  if (std::string_view(Py_TYPE(callable)->tp_name).ends_with("ScriptMethod") &&
      !leave_to_eager(parts_.tracer, "calls a TorchScript module, of which there is no Python code"))
    return nullptr;
  if (PyMethod_Check(callable) && !PyFunction_Check(PyMethod_GET_FUNCTION(callable))) {
    if (std::optional<CMethod> m = method_of_extension(callable, arguments, n))
      return call_method(*m, callable, arguments, n, names);
  }
  if (reads_source(callable)) {
    interpreter::NotInterpreting scope;
    PyObject* text = PyObject_Vectorcall(callable, arguments, n, names);
    parts_.fresh.add_result(text);
    return text;
  }
  if (PyFunction_Check(callable) || PyMethod_Check(callable)) {
    parts_.drawing.will_call(PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable);
    return std::nullopt;
  }
  if (!names)
    if (std::optional<PyObject*> known = parts_.numbers.answer(callable, arguments, n)) return known;
  const size_t all = n + (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  std::optional<CMethod> method;
  if (!PyType_Check(callable)) method = method_of(callable, arguments, n);
  const bool entry_of_dict = method && method->n > 0 && method->self && PyDict_CheckExact(method->self);
  if (entry_of_dict && one_of(method->name, {"get", "__getitem__"}))
    if (PyObject* counter = parts_.counters.entry(method->self, method->arguments[0])) return counter;
  PlainNumbers::Callee callee{callable};
  if (method) callee.self = method->self, callee.name = method->name;
  if (!parts_.numbers.reads_digits(callee, arguments, all)) {
    std::optional<PyObject*> made = call_unrecorded(callable, method, arguments, n, names);
    if (made && *made) parts_.numbers.make_keys_plain(callee, arguments, n, *made);
    return made;
  }
  PlainNumbers::Call plain(parts_.numbers, callee, arguments, all);
  if (method) method = method_of(callable, plain.arguments(), n);
  if (std::optional<PyObject*> made = call_unrecorded(callable, method, plain.arguments(), n, names)) return made;
  return PyObject_Vectorcall(callable, plain.arguments(), n, names);
}

std::optional<PyObject*> OutsideCalls::call_unrecorded(PyObject* callable, const std::optional<CMethod>& method,
                                                       PyObject* const* arguments, size_t n, PyObject* names) {
  if (PyType_Check(callable)) return call_class(callable, arguments, n, names);
  if (method) return call_method(*method, callable, arguments, n, names);
  if (read_getter(callable, arguments, n)) return PyObject_Vectorcall(callable, arguments, n, names);
  if (is_cython(callable) && of_random(origin(callable, nullptr))) parts_.sharp.will_change_global_generator(callable);
  if (Py_TYPE(callable)->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    parts_.deep.read_callable(callable);
    Ref key = text("__call__");
    parts_.classes.read(Py_TYPE(callable), key.get(), class_attribute(Py_TYPE(callable), key.get()));
    return std::nullopt;
  }
  return call_method({{}, nullptr, arguments, n, {}}, callable, arguments, n, names);
}

}  // namespace thunder::frontend
