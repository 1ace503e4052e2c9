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

}  // namespace thunder
