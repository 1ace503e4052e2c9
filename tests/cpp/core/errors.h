// What an error says, for the tests of core.
#pragma once

#include <doctest.h>

#include <functional>
#include <string>

#include "core/error.h"

namespace thunder::test {

/// The message of the error that `f` throws, which is of that kind; "no error" if there is none.
inline std::string error_of(ErrorKind kind, const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == kind);
    return e.what();
  }
  return "no error";
}

}  // namespace thunder::test
