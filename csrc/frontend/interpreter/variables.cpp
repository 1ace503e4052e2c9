// Instructions on constants, local variables, cells, globals and names.
#include "frontend/interpreter/handlers.h"

namespace thunder::frontend::interpreter {
namespace {

PyObject* local_name(Machine& m, int i) { return PyTuple_GET_ITEM(m.frame->f_code->co_localsplusnames, i); }

Flow unbound_local(Machine& m, int i) {
  PyErr_Format(PyExc_UnboundLocalError, "cannot access local variable '%U' where it is not associated with a value",
               local_name(m, i));
  return Flow::Error;
}

Flow unbound_cell(Machine& m, int i) {
  PyCodeObject* code = m.frame->f_code;
  if (i < code->co_nlocalsplus - code->co_nfreevars) return unbound_local(m, i);
  PyErr_Format(PyExc_NameError,
               "cannot access free variable '%U' where it is not associated with a value in enclosing scope",
               local_name(m, i));
  return Flow::Error;
}

// What the traceback module reads to suggest a name.
Flow undefined_name(PyObject* name) {
  PyErr_Format(PyExc_NameError, "name '%U' is not defined", name);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value && PyErr_GivenExceptionMatches(value, PyExc_NameError)) {
    auto* error = reinterpret_cast<PyNameErrorObject*>(value);
    if (!error->name) error->name = Py_NewRef(name);
  }
  PyErr_Restore(type, value, traceback);
  return Flow::Error;
}

// A new reference; null without an exception: there is none.
PyObject* find(PyObject* mapping, PyObject* name) {
  if (PyDict_CheckExact(mapping)) return Py_XNewRef(PyDict_GetItemWithError(mapping, name));
  PyObject* value = PyObject_GetItem(mapping, name);
  if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return value;
}

PyObject* find_observed(Machine& m, PyObject* mapping, PyObject* name) {
  if (m.observer)
    if (std::optional<PyObject*> given = m.observer->entry(mapping, name)) return *given;
  PyObject* value = find(mapping, name);
  if (m.observer && !PyErr_Occurred()) m.observer->read_entry(mapping, name, value);
  return value;
}

Flow load_global_value(Machine& m, PyObject* name) {
  for (PyObject* scope : {m.globals(), m.builtins()}) {
    PyObject* value = find_observed(m, scope, name);
    if (value) return m.result(value);
    if (PyErr_Occurred()) return Flow::Error;
  }
  return undefined_name(name);
}

PyObject* frame_locals(Machine& m, const char* doing, PyObject* name) {
  if (!m.frame->f_locals) PyErr_Format(PyExc_SystemError, "no locals %s %R", doing, name);
  return m.frame->f_locals;
}

}  // namespace

Flow load_const(Machine& m, int i) { return m.result(Py_NewRef(m.constant(i))); }

Flow load_fast(Machine& m, int i) {
  if (!m.locals[i]) return unbound_local(m, i);
  m.push(Py_NewRef(m.locals[i]));
  return Flow::Next;
}

Flow load_fast_and_clear(Machine& m, int i) {
  m.push(m.locals[i]);
  m.locals[i] = nullptr;
  return Flow::Next;
}

Flow store_fast(Machine& m, int i) {
  PyObject* old = m.locals[i];
  m.locals[i] = m.pop();
  Py_XDECREF(old);
  return Flow::Next;
}

Flow delete_fast(Machine& m, int i) {
  if (!m.locals[i]) return unbound_local(m, i);
  Py_CLEAR(m.locals[i]);
  return Flow::Next;
}

Flow make_cell(Machine& m, int i) {
  PyObject* cell = PyCell_New(m.locals[i]);
  if (!cell) return Flow::Error;
  if (m.observer) m.observer->made(cell);
  Py_XDECREF(m.locals[i]);
  m.locals[i] = cell;
  return Flow::Next;
}

Flow copy_free_vars(Machine& m, int n) {
  PyObject* closure = function_of(m.frame)->func_closure;
  int first = m.frame->f_code->co_nlocalsplus - n;
  for (int i = 0; i < n; ++i) m.locals[first + i] = Py_NewRef(PyTuple_GET_ITEM(closure, i));
  return Flow::Next;
}

Flow load_closure(Machine& m, int i) {
  if (!m.locals[i]) return unbound_local(m, i);
  return m.result(Py_NewRef(m.locals[i]));
}

Flow load_deref(Machine& m, int i) {
  PyObject* cell = m.locals[i];
  if (m.observer)
    if (std::optional<PyObject*> given = m.observer->entry(cell, nullptr)) return m.result(*given);
  PyObject* value = PyCell_GET(cell);
  if (m.observer) m.observer->read_cell(cell, value);
  return value ? m.result(Py_NewRef(value)) : unbound_cell(m, i);
}

Flow store_deref(Machine& m, int i) {
  if (m.observer && !m.observer->write_cell(m.locals[i], m.peek(1))) return Flow::Error;
  PyObject* value = m.pop();
  PyCell_Set(m.locals[i], value);
  Py_DECREF(value);
  return Flow::Next;
}

Flow delete_deref(Machine& m, int i) {
  if (!PyCell_GET(m.locals[i])) return unbound_cell(m, i);
  if (m.observer && !m.observer->write_cell(m.locals[i], nullptr)) return Flow::Error;
  PyCell_Set(m.locals[i], nullptr);
  return Flow::Next;
}

// The lowest bit asks for a place below the function, as calls have it.
Flow load_global(Machine& m, int argument) {
  if (argument & 1) m.push(nullptr);
  return load_global_value(m, m.name(argument >> 1));
}

Flow store_global(Machine& m, int i) {
  PyObject* name = m.name(i);
  if (m.observer && !m.observer->write_entry(m.globals(), name, m.peek(1))) return Flow::Error;
  return m.status(1, PyDict_SetItem(m.globals(), name, m.peek(1)));
}

Flow delete_global(Machine& m, int i) {
  PyObject* name = m.name(i);
  if (m.observer && !m.observer->write_entry(m.globals(), name, nullptr)) return Flow::Error;
  if (PyDict_DelItem(m.globals(), name) == 0) return Flow::Next;
  return PyErr_ExceptionMatches(PyExc_KeyError) ? undefined_name(name) : Flow::Error;
}

Flow load_name(Machine& m, int i) {
  PyObject* name = m.name(i);
  PyObject* scope = frame_locals(m, "when loading", name);
  if (!scope) return Flow::Error;
  PyObject* value = find_observed(m, scope, name);
  if (value) return m.result(value);
  return PyErr_Occurred() ? Flow::Error : load_global_value(m, name);
}

Flow load_from_dict_or_globals(Machine& m, int i) {
  PyObject* scope = m.pop();
  PyObject* value = find_observed(m, scope, m.name(i));
  Py_DECREF(scope);
  if (value) return m.result(value);
  return PyErr_Occurred() ? Flow::Error : load_global_value(m, m.name(i));
}

Flow load_from_dict_or_deref(Machine& m, int i) {
  PyObject* scope = m.pop();
  PyObject* value = find_observed(m, scope, local_name(m, i));
  Py_DECREF(scope);
  if (value) return m.result(value);
  return PyErr_Occurred() ? Flow::Error : load_deref(m, i);
}

Flow load_class_deref(Machine& m, int i) {
  PyObject* scope = frame_locals(m, "when loading", local_name(m, i));
  if (!scope) return Flow::Error;
  m.push(Py_NewRef(scope));
  return load_from_dict_or_deref(m, i);
}

Flow load_locals(Machine& m, int) {
  if (!m.frame->f_locals) {
    PyErr_SetString(PyExc_SystemError, "no locals");
    return Flow::Error;
  }
  return m.result(Py_NewRef(m.frame->f_locals));
}

Flow store_name(Machine& m, int i) {
  PyObject* name = m.name(i);
  PyObject* scope = m.frame->f_locals;
  if (!scope) {
    PyErr_Format(PyExc_SystemError, "no locals found when storing %R", name);
    m.drop();
    return Flow::Error;
  }
  if (m.observer && !m.observer->write_entry(scope, name, m.peek(1))) return Flow::Error;
  bool plain = PyDict_CheckExact(scope);
  return m.status(1, plain ? PyDict_SetItem(scope, name, m.peek(1)) : PyObject_SetItem(scope, name, m.peek(1)));
}

Flow delete_name(Machine& m, int i) {
  PyObject* name = m.name(i);
  PyObject* scope = frame_locals(m, "when deleting", name);
  if (!scope) return Flow::Error;
  if (m.observer && !m.observer->write_entry(scope, name, nullptr)) return Flow::Error;
  return PyObject_DelItem(scope, name) == 0 ? Flow::Next : undefined_name(name);
}

Flow setup_annotations(Machine& m, int) {
  PyObject* scope = m.frame->f_locals;
  if (!scope) {
    PyErr_SetString(PyExc_SystemError, "no locals found when setting up annotations");
    return Flow::Error;
  }
  Ref name = Ref::steal(PyUnicode_InternFromString("__annotations__"));
  PyObject* found = find(scope, name.get());
  if (found || PyErr_Occurred()) {
    Py_XDECREF(found);
    return found ? Flow::Next : Flow::Error;
  }
  Ref fresh = Ref::steal(PyDict_New());
  if (m.observer) m.observer->made(fresh.get());
  return PyObject_SetItem(scope, name.get(), fresh.get()) == 0 ? Flow::Next : Flow::Error;
}

}  // namespace thunder::frontend::interpreter
