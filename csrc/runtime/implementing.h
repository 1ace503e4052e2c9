// Operators of executors that run a record's calls in its place.
#pragma once

#include <string>

#include "core/op.h"

namespace thunder {

/// Registers an operator of `executor` with the record's schema and types, that prints as `print_name`.
const Op& register_implementing_operator(const Op& record, const std::string& executor, std::string print_name);

}  // namespace thunder
