// The error of a tensor's dtype that an operator does not take: the same tensor as a number would not be right either.
#pragma once

#include "core/error.h"

namespace thunder {

class DTypeError : public Error {
 public:
  explicit DTypeError(const std::string& message) : Error(ErrorKind::Runtime, message) {}
};

}  // namespace thunder

/// THUNDER_CHECK of kind Runtime, of a dtype.
#define THUNDER_CHECK_DTYPE(condition, op, ...)                                                \
  do {                                                                                         \
    if (!(condition)) throw ::thunder::DTypeError(::thunder::cat("[", op, "] ", __VA_ARGS__)); \
  } while (false)
