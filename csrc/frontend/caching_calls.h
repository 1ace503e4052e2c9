// Calls whose results are kept elsewhere, so that they cost next to nothing: of functools.lru_cache around a function
// of the user's, and of what gives a setting of PyTorch's.
//
// Owns the answers, which become guards: each call is made again before each run.  Calls the fresh objects.
#pragma once

#include <vector>

#include "frontend/environment.h"
#include "frontend/fresh_objects.h"

namespace thunder::frontend {

class CachingCalls {
 public:
  explicit CachingCalls(const FreshObjects& fresh) : fresh_(fresh) {}

  /// Whether it is a functools.lru_cache around a function.
  static bool is_caching(PyObject* callable);
  /// Calls one.  A new reference, or null with an exception set.
  PyObject* call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names);
  /// Calls what gives a setting, and has no arguments.
  PyObject* call_setting(PyObject* callable);

  void watch(EnvironmentGuard& environment);

 private:
  const FreshObjects& fresh_;
  std::vector<EnvironmentGuard::Answer> answers_;
};

}  // namespace thunder::frontend
