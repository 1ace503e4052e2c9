// C++ objects as Python sees them.
#pragma once

#include "core/trace.h"

namespace thunder::bindings {

/// A trace in Python.
struct PyTrace {
  Trace trace;
};

}  // namespace thunder::bindings
