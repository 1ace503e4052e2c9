// Autocast at acquisition: arguments are cast by PyTorch's own lists before the call is recorded.
#pragma once

#include "ops/product_dtype.h"

namespace thunder::frontend {

/// Casts floating tensors among the arguments as torch.autocast would for this operator; nothing where autocast is off.
void autocast_arguments(Builder& b, const std::string& op, ArgList& positional,
                        std::vector<std::pair<std::string, Arg>>& keyword);

/// While it lives, autocast holds for the products inside of composites too.
ops::ProductDtype autocast_products(const ArgList& positional);

/// What autocast does to an operator on a kind of device, for tests: "lower", "fp32", "promote" or "none".
const char* autocast_policy(const std::string& op, DeviceType device);

}  // namespace thunder::frontend
