// What the loss families share.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/op.h"

namespace thunder::ops::torch {

/// PyTorch's integer for the reduction that `reduction` and the legacy `size_average` and `reduce` ask for.
int64_t loss_reduction(std::string_view op, const Args& a);

}  // namespace thunder::ops::torch
