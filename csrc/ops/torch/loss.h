// What the loss families share.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/builder.h"
#include "core/op.h"

namespace thunder::ops::torch {

/// PyTorch's integer for the reduction that `reduction` and the legacy `size_average` and `reduce` ask for.
int64_t loss_reduction(std::string_view op, const Args& a);
/// All elements for 0, their mean for 1, their sum for 2.
Expr torch_reduced(const Expr& x, int64_t reduction);

}  // namespace thunder::ops::torch
