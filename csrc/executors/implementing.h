// Operators of executors that run a record's calls in its place.
#pragma once

#include <functional>
#include <string>

#include "core/op.h"
#include "passes/executor.h"

namespace thunder {

/// Registers an operator of `executor` with the record's schema, types and tags, and these tags, that prints as
/// `print_name`.  `without`: tags of the record that do not hold for the executor's own way.
const Op& register_implementing_operator(const Op& record, const std::string& executor, std::string print_name,
                                         uint64_t tags = kNoTag, uint64_t without = kNoTag);

/// What runs the record `symbol` by an instruction of `executor`, for calls that `checker` takes.
Implementation implementing(const std::string& symbol, const std::string& executor,
                            std::function<bool(const Call&)> checker, uint64_t without = kNoTag);

}  // namespace thunder
