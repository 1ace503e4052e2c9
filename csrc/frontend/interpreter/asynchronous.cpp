// Instructions of coroutines and asynchronous generators.
#include "frontend/interpreter/handlers.h"

namespace thunder::frontend::interpreter {
namespace {

using Getter = PyObject* (*)(PyObject*);

Getter getter(PyObject* o, Getter PyAsyncMethods::*slot) {
  PyAsyncMethods* methods = Py_TYPE(o)->tp_as_async;
  return methods ? methods->*slot : nullptr;
}

bool is_iterable_coroutine(PyObject* o) {
  if (!PyGen_CheckExact(o)) return false;
  Ref code = Ref::steal(PyObject_GetAttrString(o, "gi_code"));
  return reinterpret_cast<PyCodeObject*>(code.get())->co_flags & CO_ITERABLE_COROUTINE;
}

// What await iterates; null: an exception is set.
PyObject* awaited(PyObject* o) {
  if (PyCoro_CheckExact(o) || is_iterable_coroutine(o)) return Py_NewRef(o);
  Getter await = getter(o, &PyAsyncMethods::am_await);
  if (!await) {
    PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", Py_TYPE(o)->tp_name);
    return nullptr;
  }
  PyObject* made = await(o);
  if (!made) return nullptr;
  if (PyCoro_CheckExact(made) || is_iterable_coroutine(made)) {
    PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine");
    Py_CLEAR(made);
  } else if (!PyIter_Check(made)) {
    PyErr_Format(PyExc_TypeError, "__await__() returned non-iterator of type '%.100s'", Py_TYPE(made)->tp_name);
    Py_CLEAR(made);
  }
  return made;
}

bool awaited_already(PyObject* coroutine) {
  Ref inner = Ref::steal(PyObject_GetAttrString(coroutine, "cr_await"));
  return !Py_IsNone(inner.get());
}

}  // namespace

// `source`: 1 and 2 for what __aenter__ and __aexit__ gave.
Flow get_awaitable(Machine& m, int source) {
  PyObject* o = m.peek(1);
  PyObject* iterator = awaited(o);
  if (!iterator && source && !getter(o, &PyAsyncMethods::am_await))
    PyErr_Format(PyExc_TypeError, "'async with' received an object from %s that does not implement __await__: %.100s",
                 source == 1 ? "__aenter__" : "__aexit__", Py_TYPE(o)->tp_name);
  if (iterator && PyCoro_CheckExact(iterator) && awaited_already(iterator)) {
    PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
    Py_CLEAR(iterator);
  }
  return m.result(1, iterator);
}

Flow get_aiter(Machine& m, int) {
  PyObject* o = m.peek(1);
  PyObject* iterator = nullptr;
  if (Getter get = getter(o, &PyAsyncMethods::am_aiter)) iterator = get(o);
  else
    PyErr_Format(PyExc_TypeError, "'async for' requires an object with __aiter__ method, got %.100s",
                 Py_TYPE(o)->tp_name);
  if (iterator && !getter(iterator, &PyAsyncMethods::am_anext)) {
    PyErr_Format(PyExc_TypeError,
                 "'async for' received an object from __aiter__ that does not implement __anext__: %.100s",
                 Py_TYPE(iterator)->tp_name);
    Py_CLEAR(iterator);
  }
  return m.result(1, iterator);
}

Flow get_anext(Machine& m, int) {
  PyObject* iterator = m.peek(1);
  Getter next = getter(iterator, &PyAsyncMethods::am_anext);
  if (!next) {
    PyErr_Format(PyExc_TypeError, "'async for' requires an iterator with __anext__ method, got %.100s",
                 Py_TYPE(iterator)->tp_name);
    return Flow::Error;
  }
  PyObject* item = next(iterator);
  if (!item || PyAsyncGen_CheckExact(iterator)) return m.result(item);
  PyObject* made = awaited(item);
  if (!made)
    _PyErr_FormatFromCause(PyExc_TypeError, "'async for' received an invalid object from __anext__: %.100s",
                           Py_TYPE(item)->tp_name);
  Py_DECREF(item);
  return m.result(made);
}

// On the stack: the iterator and the exception of its __anext__.
Flow end_async_for(Machine& m, int) {
  PyObject* error = m.peek(1);
  if (PyErr_GivenExceptionMatches(error, PyExc_StopAsyncIteration)) {
    m.drop(2);
    return Flow::Next;
  }
  --m.sp;
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(error))), error, PyException_GetTraceback(error));
  return Flow::Reraise;
}

Flow before_async_with(Machine& m, int) {
  PyObject* manager = m.peek(1);
  PyObject* enter = special_method(manager, "__aenter__", "asynchronous context manager protocol");
  if (!enter) return Flow::Error;
  Ref owned = Ref::steal(enter);
  PyObject* exit =
      special_method(manager, "__aexit__", "asynchronous context manager protocol (missed __aexit__ method)");
  if (!exit) return Flow::Error;
  m.peek(1) = exit;
  Py_DECREF(manager);
  return m.result(PyObject_CallNoArgs(enter));
}

#if PY_VERSION_HEX >= 0x030C0000
// A StopIteration that leaves a generator or a coroutine would end its caller's loop: it becomes a RuntimeError.
Flow stop_iteration_error(Machine& m) {
  PyObject* error = m.peek(1);
  int flags = m.frame->f_code->co_flags;
  const char* text = nullptr;
  if (PyErr_GivenExceptionMatches(error, PyExc_StopIteration))
    text = flags & CO_ASYNC_GENERATOR ? "async generator raised StopIteration"
           : flags & CO_COROUTINE     ? "coroutine raised StopIteration"
                                      : "generator raised StopIteration";
  else if (flags & CO_ASYNC_GENERATOR && PyErr_GivenExceptionMatches(error, PyExc_StopAsyncIteration))
    text = "async generator raised StopAsyncIteration";
  if (!text) return Flow::Next;
  Ref message = Ref::steal(PyUnicode_FromString(text));
  PyObject* made = PyObject_CallOneArg(PyExc_RuntimeError, message.get());
  if (!made) return Flow::Error;
  PyException_SetCause(made, Py_NewRef(error));
  PyException_SetContext(made, Py_NewRef(error));
  return m.result(1, made);
}
#else
// So that what an asynchronous generator yields is told from what it awaits.
Flow async_gen_wrap(Machine& m, int) { return m.result(1, run_alone(ASYNC_GEN_WRAP, 0, m.sp - 1, 1, 1)); }
#endif

}  // namespace thunder::frontend::interpreter
