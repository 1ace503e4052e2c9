// The extension thunder._C.  Each area of the compiler has one file here with one function that adds its classes and
// functions; no logic, which belongs into the layers below.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_C, m) {
  m.doc() = "The C++ side of Thunder: traces, operators, passes, front end and runtime.";
}
