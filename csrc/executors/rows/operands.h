// The arguments of prims.group_index and prims.segment_sum when they run.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "runtime/instruction.h"

namespace thunder::rows {

struct GroupOperands {
  at::Tensor index;  ///< row-major
  int64_t groups = 0;
  bool skips = false;
  GroupOperands(const std::vector<Operand>& operands, Frame& frame);
};

struct SumOperands {
  at::Tensor a;                        ///< elements of a slice side by side
  at::Tensor places, starts, weights;  ///< row-major; starts and weights may be undefined
  int64_t length = 0, segments = 0;
  bool skips = false;
  std::vector<int64_t> shape;  ///< of the result
  int64_t outer = 1, outer_stride = 0, slices = 0, slice_stride = 0, inner = 1;
  SumOperands(const std::vector<Operand>& operands, Frame& frame);
};

/// Whether kernels may read all tensors among the operands.
bool all_plain(const std::vector<Operand>& operands, const Frame& frame);

}  // namespace thunder::rows
