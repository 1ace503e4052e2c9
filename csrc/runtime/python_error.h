// Exceptions on their way between C++ and Python.
#pragma once

#include <exception>
#include <string>

#include "python/ref.h"

namespace thunder {

/// Throws the pending Python error as torch's python_error: both our bindings and torch's autograd engine give it back
/// to Python as the exception that it was.  Needs the GIL.
[[noreturn]] void throw_python_error();

/// A new reference; throw_python_error() if it is null.
inline Ref checked(PyObject* owned) {
  if (!owned) throw_python_error();
  return Ref::steal(owned);
}
/// What `f` gives; throw_python_error() where `f` throws PythonError, whose error another thread would not find.
template <class F>
requires std::is_invocable_v<F>
auto checked(F&& f) {
  try {
    return f();
  } catch (const PythonError&) {
    throw_python_error();
  }
}

/// Sets the Python error that an exception stands for: torch's python_error as it was, c10 errors and ours as the
/// Python type that PyTorch raises for them.  False for exceptions of other kinds.  Needs the GIL.
bool set_python_error(const std::exception_ptr& exception);

/// What such an exception says.  Needs the GIL.
std::string message_of(const std::exception_ptr& exception);

/// Python's `warnings.warn(message, RuntimeWarning)`: the WarningHandler of a process with Python (core/warning.h).
/// Takes the GIL.  Throws python_error where the user made errors of warnings.
void warn_in_python(const std::string& message);

}  // namespace thunder
