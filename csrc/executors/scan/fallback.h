// Scans by PyTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "fuser/scan_kernels.h"

namespace thunder::scan {

/// `inputs`: as many as the kind has.  `type`: of a sum's or product's result.
at::Tensor by_aten(fuser::scans::Kind kind, const std::vector<at::Tensor>& inputs, int64_t dim, at::ScalarType type);

}  // namespace thunder::scan
