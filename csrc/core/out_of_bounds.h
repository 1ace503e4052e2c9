// The error of an index that no element has: eager finds it after all else that is wrong with a call.
#pragma once

#include "core/error.h"

namespace thunder {

class OutOfBounds : public Error {
 public:
  explicit OutOfBounds(const std::string& message) : Error(ErrorKind::Index, message) {}
};

}  // namespace thunder
