// C++ objects as Python sees them.
#pragma once

#include "core/trace.h"

namespace thunder::bindings {

/// A trace in Python.
struct PyTrace {
  Trace trace;
};

/// A call of a trace.
struct PyCall {
  const Call* call;
  std::shared_ptr<Arena> arena;  // owns the call
};

/// A value of a trace.
struct PyValue {
  Value value;
  std::shared_ptr<Arena> arena;  // owns the value
};

}  // namespace thunder::bindings
