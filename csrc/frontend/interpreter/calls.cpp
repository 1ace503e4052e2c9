// Instructions that call, make functions and classes, import, and match.
#include "frontend/interpreter/handlers.h"
#include "frontend/interpreter/interpreter.h"

namespace thunder::frontend::interpreter {
namespace {

PyObject* call(Machine& m, PyObject* callable, PyObject** arguments, size_t n, PyObject* names) {
  size_t positional = n - (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  if (m.observer)
    if (std::optional<PyObject*> made = m.observer->call(callable, arguments, positional, names)) return *made;
  return PyObject_Vectorcall(callable, arguments, positional, names);
}

}  // namespace

Flow kw_names(Machine& m, int i) {
  m.keywords = m.constant(i);
  return Flow::Next;
}

// On the stack: a function and its self, or nothing and what is called; then the arguments.
Flow call(Machine& m, int n) {
  PyObject* names = std::exchange(m.keywords, nullptr);
  bool method = m.peek(n + 2) != nullptr;
  PyObject* callable = m.peek(n + 1 + method);
  PyObject** arguments = m.sp - n - method;
  return after(m, m.result(n + 2, call(m, callable, arguments, static_cast<size_t>(n + method), names)));
}

namespace {

// The errors of f(**kwargs) in CPython's words.
void explain_keywords(PyObject* function, PyObject* given) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    Ref name = Ref::steal(_PyObject_FunctionStr(function));
    PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", name.get(),
                 Py_TYPE(given)->tp_name);
    return;
  }
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* arguments = value ? reinterpret_cast<PyBaseExceptionObject*>(value)->args : nullptr;
  if (!arguments || PyTuple_GET_SIZE(arguments) != 1) {
    PyErr_Restore(type, value, traceback);
    return;
  }
  Ref name = Ref::steal(_PyObject_FunctionStr(function));
  PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", name.get(),
               PyTuple_GET_ITEM(arguments, 0));
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

// f(*args) wants a tuple; null: an exception is set.
PyObject* as_tuple(PyObject* function, PyObject* given) {
  if (PyTuple_CheckExact(given)) return Py_NewRef(given);
  if (!Py_TYPE(given)->tp_iter && !PySequence_Check(given)) {
    PyErr_Clear();
    Ref name = Ref::steal(_PyObject_FunctionStr(function));
    PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", name.get(),
                 Py_TYPE(given)->tp_name);
    return nullptr;
  }
  return PySequence_Tuple(given);
}

PyObject* as_dict(PyObject* function, PyObject* given) {
  if (PyDict_CheckExact(given)) return Py_NewRef(given);
  PyObject* made = PyDict_New();
  if (made && _PyDict_MergeEx(made, given, 2) < 0) {
    Py_CLEAR(made);
    explain_keywords(function, given);
  }
  return made;
}

PyObject* call_spread(Machine& m, PyObject* function, PyObject* positional, PyObject* keyword) {
  if (!m.observer) return PyObject_Call(function, positional, keyword);
  std::vector<PyObject*> arguments;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional); ++i) arguments.push_back(PyTuple_GET_ITEM(positional, i));
  Ref names;
  if (keyword && PyDict_GET_SIZE(keyword)) {
    names = Ref::steal(PySequence_Tuple(keyword));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
      PyObject* name = PyTuple_GET_ITEM(names.get(), i);
      if (!PyUnicode_Check(name)) return PyObject_Call(function, positional, keyword);
      arguments.push_back(PyDict_GetItemWithError(keyword, name));
    }
  }
  size_t n = static_cast<size_t>(PyTuple_GET_SIZE(positional));
  if (std::optional<PyObject*> made = m.observer->call(function, arguments.data(), n, names.get())) return *made;
  return PyObject_Call(function, positional, keyword);
}

}  // namespace

Flow call_function_ex(Machine& m, int has_keywords) {
  has_keywords &= 1;
  PyObject* function = m.peek(2 + has_keywords);
  if (m.observer)
    for (int i = 1; i <= 1 + has_keywords; ++i) m.observer->read_whole(m.peek(i));
  PyObject* keyword = has_keywords ? as_dict(function, m.peek(1)) : nullptr;
  if (has_keywords && !keyword) return m.result(3 + has_keywords, nullptr);
  PyObject* positional = as_tuple(function, m.peek(1 + has_keywords));
  PyObject* made = positional ? call_spread(m, function, positional, keyword) : nullptr;
  Py_XDECREF(keyword);
  Py_XDECREF(positional);
  return after(m, m.result(3 + has_keywords, made));
}

Flow dict_merge(Machine& m, int depth) {
  if (m.observer) m.observer->read_whole(m.peek(1));
  int error = _PyDict_MergeEx(m.peek(depth + 1), m.peek(1), 2);
  if (error < 0) explain_keywords(m.peek(depth + 3), m.peek(1));
  return m.status(1, error);
}

// ---- functions and classes ------------------------------------------------------------------------------------------

Flow make_function(Machine& m, int parts) {
  PyObject* code = m.pop();
  auto* f = reinterpret_cast<PyFunctionObject*>(PyFunction_New(code, m.globals()));
  Py_DECREF(code);
  if (!f) return Flow::Error;
  if (parts & 8) f->func_closure = m.pop();
  if (parts & 4) f->func_annotations = m.pop();
  if (parts & 2) f->func_kwdefaults = m.pop();
  if (parts & 1) f->func_defaults = m.pop();
  return m.made(reinterpret_cast<PyObject*>(f));
}

namespace {

PyObject* builtin(Machine& m, const char* name, PyObject* error) {
  Ref key = Ref::steal(PyUnicode_InternFromString(name));
  PyObject* found = PyObject_GetItem(m.builtins(), key.get());
  if (!found && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Format(error, "%s not found", name);
  return found;
}

}  // namespace

Flow load_build_class(Machine& m, int) { return m.result(builtin(m, "__build_class__", PyExc_NameError)); }

#if PY_VERSION_HEX >= 0x030C0000
// super(...).name without a call instruction; super() finds its class and self in our frame.
Flow load_super_attr(Machine& m, int argument) {
  PyObject *super = m.peek(3), *name = m.name(argument >> 2);
  PyObject* operands[] = {m.peek(2), m.peek(1)};
  PyObject* bound = PyObject_Vectorcall(super, operands, argument & 2, nullptr);
  m.drop(3);
  if (!bound) return Flow::Error;
  PyObject* value = PyObject_GetAttr(bound, name);
  if (m.observer) m.observer->read_attribute(bound, name, value);
  Py_DECREF(bound);
  if (argument & 1) m.push(nullptr);
  return m.result(value);
}
#endif

// ---- imports --------------------------------------------------------------------------------------------------------

// A module that is imported here for the first time is not a part of the program.
Flow import_name(Machine& m, int i) {
  PyObject* import = builtin(m, "__import__", PyExc_ImportError);
  if (!import) return Flow::Error;
  PyObject* locals = m.frame->f_locals ? m.frame->f_locals : Py_None;
  PyObject* arguments[] = {m.name(i), m.globals(), locals, m.peek(1), m.peek(2)};
  PyObject* made = nullptr;
  {
    std::optional<NotInterpreting> scope;
    if (m.observer) scope.emplace();
    made = PyObject_Vectorcall(import, arguments, 5, nullptr);
  }
  Py_DECREF(import);
  // A relative name is what the package is, which stays.
  if (made && m.observer && PyLong_AsLong(m.peek(2)) == 0) {
    PyObject* modules = PyImport_GetModuleDict();
    m.observer->read_entry(modules, m.name(i), PyDict_GetItemWithError(modules, m.name(i)));
  }
  return m.result(2, made);
}

Flow import_from(Machine& m, int i) {
  PyObject *module = m.peek(1), *name = m.name(i);
  PyObject* value = PyObject_GetAttr(module, name);
  if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    Ref names = Ref::steal(PyTuple_Pack(1, name));
    // It leaves the module below what it found.
    PyObject* both = run_alone(IMPORT_FROM, 0, &module, 1, 2, names.get());
    if (both) value = Py_NewRef(PyTuple_GET_ITEM(both, 1));
    Py_XDECREF(both);
  } else if (m.observer) {
    m.observer->read_attribute(module, name, value);
  }
  return m.result(value);
}

namespace {

// The public names of a module: its __all__, or what has no underscore.  `all`: whether it is the former.
PyObject* public_names(PyObject* module, bool& all) {
  all = false;
  PyObject* names = PyObject_GetAttrString(module, "__all__");
  if (names || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
    all = true;
    return names;
  }
  PyErr_Clear();
  PyObject* dict = PyObject_GetAttrString(module, "__dict__");
  if (!dict) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError))
      PyErr_SetString(PyExc_ImportError, "from-import-* object has no __dict__ and no __all__");
    return nullptr;
  }
  names = PyMapping_Keys(dict);
  Py_DECREF(dict);
  return names;
}

bool refuse_name(PyObject* module, PyObject* name, bool all) {
  Ref of = Ref::steal(PyObject_GetAttrString(module, "__name__"));
  const char* kind = all ? "Item" : "Key";
  PyErr_Format(PyExc_TypeError, "%s in %U.%s must be str, not %.100s", kind, of.get(), all ? "__all__" : "__dict__",
               Py_TYPE(name)->tp_name);
  return false;
}

bool import_all(PyObject* locals, PyObject* module) {
  bool all = false;
  Ref names = Ref::steal(public_names(module, all));
  Ref sequence = Ref::steal(PySequence_List(names.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(sequence.get()); ++i) {
    PyObject* name = PyList_GET_ITEM(sequence.get(), i);
    if (!PyUnicode_Check(name)) return refuse_name(module, name, all);
    if (!all && PyUnicode_GET_LENGTH(name) && PyUnicode_READ_CHAR(name, 0) == '_') continue;
    Ref value = Ref::steal(PyObject_GetAttr(module, name));
    if (PyObject_SetItem(locals, name, value.get()) < 0) return false;
  }
  return true;
}

}  // namespace

Flow import_star(Machine& m, int) {
  Ref module = Ref::steal(m.pop());
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame || PyFrame_FastToLocalsWithError(frame) < 0) return Flow::Error;
  if (!m.frame->f_locals) {
    PyErr_SetString(PyExc_SystemError, "no locals found during 'import *'");
    return Flow::Error;
  }
  if (!import_all(m.frame->f_locals, module.get())) return Flow::Error;
  PyFrame_LocalsToFast(frame, 0);
  return Flow::Next;
}

Flow print_expr(Machine& m, int) {
  Ref value = Ref::steal(m.pop());
  PyObject* hook = PySys_GetObject("displayhook");
  if (!hook) {
    PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
    return Flow::Error;
  }
  PyObject* done = PyObject_CallOneArg(hook, value.get());
  Py_XDECREF(done);
  return done ? Flow::Next : Flow::Error;
}

// ---- what CPython alone knows how to do -----------------------------------------------------------------------------

namespace {

Flow alone(Machine& m, int opcode, int argument, int operands) {
  return m.result(operands, run_alone(opcode, argument, m.sp - operands, operands, 1));
}

}  // namespace

Flow match_mapping(Machine& m, int) {
  return m.result(Py_NewRef(Py_TYPE(m.peek(1))->tp_flags & Py_TPFLAGS_MAPPING ? Py_True : Py_False));
}

Flow match_sequence(Machine& m, int) {
  return m.result(Py_NewRef(Py_TYPE(m.peek(1))->tp_flags & Py_TPFLAGS_SEQUENCE ? Py_True : Py_False));
}

// Subject and keys stay.
Flow match_keys(Machine& m, int) {
  if (m.observer) m.observer->read_whole(m.peek(2));
  PyObject* all = run_alone(MATCH_KEYS, 0, m.sp - 2, 2, 3);
  if (!all) return Flow::Error;
  m.push(Py_NewRef(PyTuple_GET_ITEM(all, 2)));
  Py_DECREF(all);
  return Flow::Next;
}

// The attributes that a class pattern looks at: `n` of __match_args__, then those that it names.
Flow match_class(Machine& m, int n) {
  if (!m.observer) return alone(m, MATCH_CLASS, n, 3);
  PyObject *names = m.peek(1), *type = m.peek(2), *subject = m.peek(3);
  static PyObject* match_args = PyUnicode_InternFromString("__match_args__");
  PyObject* positional = n ? PyObject_GetAttr(type, match_args) : nullptr;
  if (!positional) PyErr_Clear();
  m.observer->read_attribute(type, match_args, positional);
  for (int i = 0; positional && PyTuple_Check(positional) && i < n && i < PyTuple_GET_SIZE(positional); ++i)
    m.observer->read_attribute(subject, PyTuple_GET_ITEM(positional, i), nullptr);
  Py_XDECREF(positional);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    m.observer->read_attribute(subject, PyTuple_GET_ITEM(names, i), nullptr);
  return alone(m, MATCH_CLASS, n, 3);
}

#if PY_VERSION_HEX >= 0x030C0000
Flow call_intrinsic_1(Machine& m, int which) {
  constexpr int kPrint = 1, kImportStar = 2, kStopIterationError = 3;
  if (which == kStopIterationError) return stop_iteration_error(m);
  if (which == kPrint || which == kImportStar) {
    Flow flow = which == kPrint ? print_expr(m, 0) : import_star(m, 0);
    return flow == Flow::Next ? m.result(Py_NewRef(Py_None)) : flow;
  }
  return alone(m, CALL_INTRINSIC_1, which, 1);
}

Flow call_intrinsic_2(Machine& m, int which) { return alone(m, CALL_INTRINSIC_2, which, 2); }
#else
Flow prep_reraise_star(Machine& m, int) { return alone(m, PREP_RERAISE_STAR, 0, 2); }
#endif

}  // namespace thunder::frontend::interpreter
