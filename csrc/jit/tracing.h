// The run of the user's function on proxies, and whether one is under way.
#pragma once

#include <exception>
#include <functional>

#include "frontend/tracer.h"

namespace thunder {

/// While a user's function is traced: compiled functions that it calls become a part of its program.
class Tracing {
 public:
  Tracing();
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;
  /// Whether a user's function is being traced in this thread.
  static bool active();
};

/// What the user's code raised is no Exception (Ctrl-C): for the caller, and no reason to try another way, so that
/// handlers of std::exception let it pass.
struct Interrupted {
  std::exception_ptr raised;
};

/// Runs the user's function on proxies under the tracing mode; set once by the bindings.
using Runner = std::function<Ref(frontend::Tracer&, PyObject* fn, PyObject* args, PyObject* kwargs)>;
Runner& function_runner();

/// THUNDER_INTERPRETER=0: Python runs the user's function, and a snapshot of what is within its reach is guarded.
bool interpreter_enabled();

}  // namespace thunder
