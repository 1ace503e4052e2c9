#include "python/stack.h"

#include <pthread.h>

#include "python/mark.h"
#include "python/ref.h"

namespace thunder {

bool stack_ends() {
  constexpr size_t kReserve = 512 << 10;
  static thread_local const char* const lowest = [] {
    void* address = nullptr;
    size_t size = 0;
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstack(&attributes, &address, &size);
      pthread_attr_destroy(&attributes);
    }
    return static_cast<const char*>(address);
  }();
  const char here = 0;
  return lowest && static_cast<size_t>(&here - lowest) < kReserve;
}

void check_stack() {
  if (!stack_ends()) return;
  PyErr_SetString(PyExc_RecursionError,
                  "[jit] a list, tuple, dict or object is nested too deeply for this thread's stack");
  mark_error(Mark::Compiler);
  throw PythonError();
}

}  // namespace thunder
