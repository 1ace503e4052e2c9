// Which calls are the same computation of the same operands.
#pragma once

#include "core/trace.h"

namespace thunder {

/// Equal calls (is_equal_call) have equal hashes.
size_t hash_of_call(const Op& op, const ArgList& args);
bool is_equal_call(const Op& op, const ArgList& args, const Op& other, const ArgList& others);

}  // namespace thunder
