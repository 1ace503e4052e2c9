// C++ objects as Python sees them.
#pragma once

#include "bindings/bind.h"
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

/// Each value in it as a PyValue.
nb::object wrap_arg(const Arg& a, const std::shared_ptr<Arena>& arena);
nb::list wrap_values(const std::vector<Value>& values, const std::shared_ptr<Arena>& arena);
nb::list wrap_calls(const std::vector<const Call*>& calls, const std::shared_ptr<Arena>& arena);

}  // namespace thunder::bindings
