// A Python exception that was raised, held while other Python code runs.
#pragma once
#include <Python.h>

#include <string>

#include "frontend/hooks.h"
#include "frontend/python.h"

namespace thunder {

struct Raised {
  frontend::Ref type, value, traceback;

  /// Takes the one that Python's error indicator holds.
  static Raised take() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Raised out;
    out.type = frontend::Ref::steal(type);
    if (value) out.value = frontend::Ref::steal(value);
    if (traceback) {
      out.traceback = frontend::Ref::steal(traceback);
      PyException_SetTraceback(out.value.get(), traceback);
    }
    return out;
  }
  /// Takes the C++ exception that is being handled.
  static Raised current() {
    frontend::hooks().set_python_error();
    return take();
  }
  void raise() { PyErr_Restore(type.release(), value.release(), traceback.release()); }

  bool is(PyObject* class_of_exceptions) const {
    return PyErr_GivenExceptionMatches(type.get(), class_of_exceptions) != 0;
  }
  std::string text() const {
    PyObject* text = PyObject_Str(value.get());
    const char* s = text ? PyUnicode_AsUTF8(text) : nullptr;
    std::string out = s ? s : "";
    if (!s) PyErr_Clear();
    Py_XDECREF(text);
    return out;
  }
  /// By the compiler or one of its operators.
  bool is_ours() const { return text().starts_with("["); }
  /// The compiler does not do what the program asks for.
  bool is_not_implemented() const { return type.get() == PyExc_NotImplementedError && is_ours(); }
  bool is_refusal() const { return is_not_implemented() || text().starts_with("[sharp_edges]"); }
};

}  // namespace thunder
