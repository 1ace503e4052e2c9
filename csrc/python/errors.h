// Python's error indicator: an exception that was raised, held while other Python code runs.
#pragma once

#include <exception>
#include <string>

#include "python/ref.h"

namespace thunder {

/// A Python exception that was raised.
struct Raised {
  Ref type, value, traceback;

  /// Takes the one that Python's error indicator holds.
  static Raised take();
  /// Gives it back to the indicator.
  void raise();

  bool is(PyObject* class_of_exceptions) const {
    return PyErr_GivenExceptionMatches(type.get(), class_of_exceptions) != 0;
  }
  /// str() of the exception; empty if that raises.
  std::string text() const;
};

/// For the length of a scope the error indicator is empty; afterwards it is what it was before.  A scope that a
/// PythonError leaves keeps that error, unless there was one before.
class KeepError {
 public:
  KeepError() : exceptions_(std::uncaught_exceptions()) { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~KeepError() {
    if (type_ || std::uncaught_exceptions() == exceptions_) PyErr_Restore(type_, value_, traceback_);
  }
  KeepError(const KeepError&) = delete;
  KeepError& operator=(const KeepError&) = delete;

 private:
  PyObject *type_, *value_, *traceback_;
  int exceptions_;
};

}  // namespace thunder
