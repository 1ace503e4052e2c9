// What an exception says of the compiler.
#pragma once

#include "frontend/hooks.h"
#include "python/mark.h"

namespace thunder {

/// The C++ exception that is being handled, as Python's.
inline Raised current_error() {
  frontend::hooks().set_python_error();
  return Raised::take();
}
/// Whether the compiler or one of its operators raised it.
inline bool is_ours(const Raised& raised) {
  const std::optional<Mark> mark = mark_of(raised);
  return mark && *mark != Mark::Internal;
}
/// Whether the compiler does not do what the program asks for.
inline bool is_not_implemented(const Raised& raised) {
  return raised.type.get() == PyExc_NotImplementedError && is_ours(raised);
}
inline bool is_refusal(const Raised& raised) {
  return is_not_implemented(raised) || mark_of(raised) == Mark::SharpEdge;
}

}  // namespace thunder
