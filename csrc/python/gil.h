// Python's lock, for code that runs with or without it.
#pragma once

#include <Python.h>

namespace thunder {

/// Holds the GIL for a scope, in a thread that may hold it already.
class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Releases the GIL for a scope, if this thread holds it.
class WithoutGil {
 public:
  WithoutGil() : WithoutGil(Py_IsInitialized() && PyGILState_Check()) {}
  /// Only if `active`, by a thread that holds the GIL.
  explicit WithoutGil(bool active) : state_(active ? PyEval_SaveThread() : nullptr) {}
  ~WithoutGil() {
    if (state_) PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace thunder
