// What a part of an acquisition comes to: its value, or one of three reasons that there is none.
//
// The user's function, metas and passes raise exceptions.  caught() is the one place where exceptions become values, so
// that the parts above it decide by types.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "frontend/needs_eager.h"
#include "jit/again.h"
#include "jit/raised.h"
#include "jit/tracing.h"

namespace thunder {

/// A part of the acquisition raised.
struct Failed {
  Raised error;
  /// The function raised, so that the function itself can run in place of a program.
  bool by_function = false;

  /// Raises the error for the caller.
  [[noreturn]] void raise() {
    error.raise();
    throw PythonError();
  }
};

template <class T>
using Outcome = std::variant<T, Again, NeedsEager, Failed>;

/// The reason that `from`, which has no value, has none.
template <class To, class From>
Outcome<To> reason_of(Outcome<From>&& from) {
  if (auto* again = std::get_if<Again>(&from)) return std::move(*again);
  if (auto* eager = std::get_if<NeedsEager>(&from)) return std::move(*eager);
  return std::move(std::get<Failed>(from));
}

/// The outcome of `part()`, which returns an Outcome<T>; Failed if the part raises an Exception.  An exception that is no
/// Exception (Ctrl-C) goes to the caller.
template <class T, class Part>
Outcome<T> caught(const Part& part) {
  try {
    return part();
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    Failed failed{current_error()};
    if (!failed.error.is(PyExc_Exception)) failed.raise();
    return failed;
  }
}

}  // namespace thunder
