// The default executor: runs calls by PyTorch's own operators.
#pragma once

#include <memory>
#include <string>

#include "executors/definition.h"

namespace thunder {

/// Claims every call whose record names an ATen operator that this PyTorch has, or for which there is a function of our
/// own. The operator that stands in the program prints as the record's first public name ("torch.nn.functional.gelu"),
/// a primitive as "torch_<name>_prim_impl".
ExecutorDefinition aten_executor();

/// Makes the operators of this executor for all records, which otherwise appear with their first claim: for the parser,
/// which finds them by the name that they print as.
void register_aten_operators();

/// What is wrong with a record's `aten` field against the ATen operator's schema; empty if nothing.
std::string check_record(const Op& op);

}  // namespace thunder
