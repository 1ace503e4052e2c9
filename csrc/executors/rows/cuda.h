// The launches of prims.group_index and prims.segment_sum on a GPU.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/dtype.h"
#include "executors/rows/operands.h"

namespace thunder {
class CudaModule;
}

namespace thunder::rows {

class CudaGroup {
 public:
  explicit CudaGroup(DType index);
  /// Order and starts; nothing where PyTorch's operators are to run: kernels cannot be compiled, which gives a warning,
  /// or there are too many numbers.
  std::optional<std::vector<at::Tensor>> run(const GroupOperands& o) const;

 private:
  std::shared_ptr<CudaModule> short_, long_;  // by what a key takes
};

class CudaSum {
 public:
  explicit CudaSum(DType t);
  /// The sums; nothing as above.
  std::optional<at::Tensor> run(const SumOperands& o) const;

 private:
  const DType type_;
  std::shared_ptr<CudaModule> module_;
};

}  // namespace thunder::rows
