// Calls of what is not interpreted: functions of C code, classes, and the torch calls that are recorded.
//
// The interpreter does not see the inside of a call of C code.  What such a call may read and write is derived from the
// function and its arguments, before the call is made: known functions and methods do what their names say, any other
// one may read all that it is given, and its containers are compared before and after.  Owns the classes that are being
// called.  Calls all other parts of the environment (reads.h), and the recorder.
#pragma once

#include <optional>
#include <vector>

#include "frontend/c_methods.h"
#include "frontend/caching_calls.h"
#include "frontend/counters.h"
#include "frontend/deep_reads.h"
#include "frontend/drawing_observer.h"
#include "frontend/plain_numbers.h"
#include "frontend/sharp_calls.h"
#include "frontend/tracer.h"

namespace thunder::frontend {

/// What calls read, write and record in.
struct CalledParts {
  Tracer& tracer;
  FreshObjects& fresh;
  ArgumentUses& uses;
  WriteLog& log;
  TouchedStates& states;
  ClassReads& classes;
  ContainerReads& containers;
  AttributeReads& attributes;
  EnvironmentWrites& writes;
  DeepReads& deep;
  Counters& counters;
  PlainNumbers& numbers;
  SharpCalls& sharp;
  CachingCalls& caching;
  DrawingObserver& drawing;
};

class OutsideCalls {
 public:
  explicit OutsideCalls(const CalledParts& parts) : parts_(parts) {}

  /// As the observer says.
  std::optional<PyObject*> call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  /// A frame of Python code began: the constructor of a class that is being called makes its first argument.
  void entered(PyObject* function, PyCodeObject* code, PyObject* first);

 private:
  std::optional<PyObject*> call_torch(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  std::optional<PyObject*> call_unbound(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  std::optional<PyObject*> call_unrecorded(PyObject* callable, const std::optional<CMethod>& method,
                                           PyObject* const* arguments, size_t n, PyObject* names);
  PyObject* call_class(PyObject* type, PyObject* const* arguments, size_t n, PyObject* names);
  PyObject* call_builtin(const CMethod& m, PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  PyObject* call_method(const CMethod& m, PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  PyObject* call_and_compare(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  bool read_getter(PyObject* callable, PyObject* const* arguments, size_t n);
  std::optional<bool> before_entry_method(const CMethod& m);
  bool before_container_method(const CMethod& m);
  bool before_object_method(const CMethod& m);

  const CalledParts parts_;
  std::vector<PyObject*> constructing_;  // classes that are being called; null: its object was made
};

}  // namespace thunder::frontend
