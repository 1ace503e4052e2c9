// Instructions that decide what runs next: jumps, iteration, generators, exceptions, with.
#include "frontend/interpreter/handlers.h"

namespace thunder::frontend::interpreter {

Flow nothing(Machine&, int) { return Flow::Next; }
// From 2 on: inside yield from and await, where the innermost frame looks after the others.
Flow resume(Machine& m, int where) { return where < 2 ? after(m, Flow::Next) : Flow::Next; }
Flow leave(Machine&, int) { return Flow::Leave; }

// ---- the stack ------------------------------------------------------------------------------------------------------

Flow pop_top(Machine& m, int) {
  m.drop();
  return Flow::Next;
}

Flow push_null(Machine& m, int) {
  m.push(nullptr);
  return Flow::Next;
}

Flow copy(Machine& m, int i) {
  m.push(Py_XNewRef(m.peek(i)));
  return Flow::Next;
}

Flow swap(Machine& m, int i) {
  std::swap(m.peek(1), m.peek(i));
  return Flow::Next;
}

// ---- jumps ----------------------------------------------------------------------------------------------------------

Flow jump_forward(Machine& m, int n) {
  m.jump(n);
  return Flow::Next;
}

Flow jump_backward_no_interrupt(Machine& m, int n) {
  m.jump(-n);
  return Flow::Next;
}

namespace {

// -1: an exception is set.
int truth(Machine& m, PyObject* o) {
  if (o == Py_True) return 1;
  if (o == Py_False) return 0;
  if (m.observer) m.observer->read_length(o);
  return PyObject_IsTrue(o);
}

Flow jump(Machine& m, int distance) {
  m.jump(distance);
  return distance > 0 ? Flow::Next : after(m, Flow::Next);
}

Flow jump_if(Machine& m, int distance, int wanted) {
  int value = truth(m, m.peek(1));
  m.drop();
  if (value < 0) return Flow::Error;
  return value == wanted ? jump(m, distance) : Flow::Next;
}

Flow jump_if_none(Machine& m, int distance, bool wanted) {
  bool is = Py_IsNone(m.peek(1));
  m.drop();
  return is == wanted ? jump(m, distance) : Flow::Next;
}

Flow jump_if_or_pop(Machine& m, int distance, int wanted) {
  int value = truth(m, m.peek(1));
  if (value < 0) return Flow::Error;
  if (value == wanted) m.jump(distance);
  else m.drop();
  return Flow::Next;
}

}  // namespace

Flow jump_backward(Machine& m, int n) { return jump(m, -n); }
Flow jump_if_true(Machine& m, int n) { return jump_if(m, n, 1); }
Flow jump_if_false(Machine& m, int n) { return jump_if(m, n, 0); }
Flow jump_back_if_true(Machine& m, int n) { return jump_if(m, -n, 1); }
Flow jump_back_if_false(Machine& m, int n) { return jump_if(m, -n, 0); }
Flow jump_if_none(Machine& m, int n) { return jump_if_none(m, n, true); }
Flow jump_if_not_none(Machine& m, int n) { return jump_if_none(m, n, false); }
Flow jump_back_if_none(Machine& m, int n) { return jump_if_none(m, -n, true); }
Flow jump_back_if_not_none(Machine& m, int n) { return jump_if_none(m, -n, false); }
Flow jump_if_true_or_pop(Machine& m, int n) { return jump_if_or_pop(m, n, 1); }
Flow jump_if_false_or_pop(Machine& m, int n) { return jump_if_or_pop(m, n, 0); }

// ---- iteration ------------------------------------------------------------------------------------------------------

Flow get_iter(Machine& m, int) {
  if (m.observer) m.observer->read_whole(m.peek(1));
  return m.result(1, PyObject_GetIter(m.peek(1)));
}

Flow get_yield_from_iter(Machine& m, int) {
  PyObject* o = m.peek(1);
  if (PyCoro_CheckExact(o)) {
    if (m.frame->f_code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) return Flow::Next;
    PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
    return Flow::Error;
  }
  return PyGen_CheckExact(o) ? Flow::Next : get_iter(m, 0);
}

Flow for_iter(Machine& m, int distance) {
  PyObject* iterator = m.peek(1);
  PyObject* item = Py_TYPE(iterator)->tp_iternext(iterator);
  if (item) {
    m.push(item);
    return Flow::Next;
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Flow::Error;
    PyErr_Clear();
  }
  m.drop();
#if PY_VERSION_HEX >= 0x030C0000
  ++distance;  // past its END_FOR
#endif
  m.jump(distance);
  return Flow::Next;
}

Flow end_for(Machine& m, int) {
  m.drop(2);
  return Flow::Next;
}

// One step of the generator below: what it yields goes on to our caller, what it returns to us.
Flow send(Machine& m, int distance) {
  PyObject *receiver = m.peek(2), *given = m.peek(1), *value = nullptr;
  PySendResult status = PyIter_Send(receiver, given, &value);
  if (status == PYGEN_ERROR) return Flow::Error;
  Py_DECREF(given);
  m.peek(1) = value;
  if (status == PYGEN_NEXT) return Flow::Next;
#if PY_VERSION_HEX < 0x030C0000
  m.peek(2) = value;
  --m.sp;
  Py_DECREF(receiver);
#endif
  m.jump(distance);
  return Flow::Next;
}

Flow end_send(Machine& m, int) {
  std::swap(m.peek(1), m.peek(2));
  m.drop();
  return Flow::Next;
}

// ---- exceptions -----------------------------------------------------------------------------------------------------

Flow push_exc_info(Machine& m, int) {
  _PyErr_StackItem* handled = m.thread->exc_info;
  PyObject* value = m.peek(1);
  m.peek(1) = handled->exc_value ? handled->exc_value : Py_NewRef(Py_None);
  m.push(Py_NewRef(value));
  handled->exc_value = value;
  return Flow::Next;
}

Flow pop_except(Machine& m, int) {
  _PyErr_StackItem* handled = m.thread->exc_info;
  PyObject* old = handled->exc_value;
  handled->exc_value = m.pop();
  Py_XDECREF(old);
  return Flow::Next;
}

namespace {

// An exception as an argument of raise: a class is called.
PyObject* instance(PyObject* o, const char* otherwise) {
  if (PyExceptionInstance_Check(o)) return Py_NewRef(o);
  if (!PyExceptionClass_Check(o)) {
    PyErr_SetString(PyExc_TypeError, otherwise);
    return nullptr;
  }
  PyObject* made = PyObject_CallNoArgs(o);
  if (made && !PyExceptionInstance_Check(made)) {
    PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", o,
                 Py_TYPE(made));
    Py_CLEAR(made);
  }
  return made;
}

Flow raise_again(PyObject* value) {
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(value))), value, PyException_GetTraceback(value));
  return Flow::Reraise;
}

Flow raise_from(PyObject* raised, PyObject* from) {
  PyObject* value = instance(raised, "exceptions must derive from BaseException");
  if (!value) return Flow::Error;
  Ref owned = Ref::steal(value);
  if (from) {
    PyObject* cause = from == Py_None ? nullptr : instance(from, "exception causes must derive from BaseException");
    if (!cause && from != Py_None) return Flow::Error;
    PyException_SetCause(value, cause);
  }
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(value)), value);
  return Flow::Error;
}

}  // namespace

Flow raise_varargs(Machine& m, int n) {
  if (n == 0) {
    PyObject* handled = PyErr_GetHandledException();
    if (handled) return raise_again(handled);
    PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
    return Flow::Error;
  }
  Ref from = n == 2 ? Ref::steal(m.pop()) : Ref();
  Ref raised = Ref::steal(m.pop());
  return raise_from(raised.get(), from.get());
}

// `depth`: where the place at which the exception happened lies on the stack; 0: nowhere.
Flow reraise(Machine& m, int depth) {
  if (depth) m.frame->prev_instr = _PyCode_CODE(m.frame->f_code) + PyLong_AsLong(m.peek(depth + 1));
  return raise_again(m.pop());
}

Flow cleanup_throw(Machine& m, int) {
  PyObject* error = m.peek(1);
  if (!PyErr_GivenExceptionMatches(error, PyExc_StopIteration)) {
    return raise_again(Py_NewRef(error));
  }
  PyObject* value = Py_NewRef(reinterpret_cast<PyStopIterationObject*>(error)->value);
  m.drop(3);
  m.push(Py_NewRef(Py_None));
  m.push(value);
  return Flow::Next;
}

Flow check_exc_match(Machine& m, int) {
  PyObject* wanted = m.peek(1);
  bool valid = true;
  if (PyTuple_Check(wanted)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(wanted); ++i)
      valid = valid && PyExceptionClass_Check(PyTuple_GET_ITEM(wanted, i));
  } else {
    valid = PyExceptionClass_Check(wanted);
  }
  if (!valid) {
    PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
    return Flow::Error;
  }
  return m.truth(1, PyErr_GivenExceptionMatches(m.peek(2), wanted));
}

// Both operands give way to the rest that did not match and the part that did.
Flow check_eg_match(Machine& m, int) {
  PyObject* operands[] = {m.peek(2), m.peek(1)};
  PyObject* both = run_alone(CHECK_EG_MATCH, 0, operands, 2, 2);
  if (!both) return Flow::Error;
  m.drop(2);
  for (int i = 0; i < 2; ++i) m.push(Py_NewRef(PyTuple_GET_ITEM(both, i)));
  Py_DECREF(both);
  return Flow::Next;
}

Flow load_assertion_error(Machine& m, int) { return m.result(Py_NewRef(PyExc_AssertionError)); }

// ---- with -----------------------------------------------------------------------------------------------------------

PyObject* special_method(PyObject* manager, const char* name, const char* protocol) {
  Ref text = Ref::steal(PyUnicode_InternFromString(name));
  PyObject* method = _PyObject_LookupSpecial(manager, text.get());
  if (!method && !PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the %s", Py_TYPE(manager)->tp_name, protocol);
  return method;
}

Flow before_with(Machine& m, int) {
  PyObject* manager = m.peek(1);
  PyObject* enter = special_method(manager, "__enter__", "context manager protocol");
  if (!enter) return Flow::Error;
  Ref owned = Ref::steal(enter);
  PyObject* exit = special_method(manager, "__exit__", "context manager protocol (missed __exit__ method)");
  if (!exit) return Flow::Error;
  m.peek(1) = exit;
  Py_DECREF(manager);
  return m.result(PyObject_CallNoArgs(enter));
}

Flow with_except_start(Machine& m, int) {
  PyObject *value = m.peek(1), *exit = m.peek(4);
  PyObject* traceback = PyException_GetTraceback(value);
  PyObject* arguments[] = {nullptr, reinterpret_cast<PyObject*>(Py_TYPE(value)), value,
                           traceback ? traceback : Py_None};
  PyObject* result = PyObject_Vectorcall(exit, arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  Py_XDECREF(traceback);
  return m.result(result);
}

}  // namespace thunder::frontend::interpreter
