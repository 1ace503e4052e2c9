// The extension thunder._C.  Each area of the compiler has one file here with one function that adds its classes and
// functions; no logic, which belongs into the layers below.
#include "bindings/bind.h"
#include "ops/families.h"

NB_MODULE(_C, m) {
  // Executors and operators live in global tables of the package; what Python clears after those is no leak.
  nb::set_leak_warnings(false);
  m.doc() = "The C++ side of Thunder: traces, operators, passes, front end and runtime.";
  thunder::ops::register_all();
  thunder::bindings::bind_errors(m);
  thunder::bindings::bind_trace(m);
  thunder::bindings::bind_registry(m);
  thunder::bindings::bind_executors(m);
  thunder::bindings::bind_tracer(m);
  thunder::bindings::bind_frontend(m);
  thunder::bindings::bind_interpreter(m);
  thunder::bindings::bind_function(m);
  thunder::bindings::bind_extend(m);
  thunder::bindings::bind_regions(m);
  thunder::bindings::bind_distributed(m);
  thunder::bindings::bind_simulate(m);
}
