// One fusion of a program: what is known of it when the program is compiled, and how it runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/trace.h"
#include "executors/fuser/batch.h"

namespace thunder {

struct FusedKernel {
  std::string name;  ///< in the trace
  bool on_cuda = false;
  fuser::Kernel kernel;                ///< of the fast variant: all pointers aligned to 16 bytes
  fuser::Kernel any;                   ///< CUDA only: the variant for other pointers
  std::string function, any_function;  ///< in their batches
  /// CUDA only, where sizes are symbolic: for offsets that need 64 bits; both in `any_batch`.
  std::string wide_function, any_wide_function;
  std::shared_ptr<KernelBatch> batch, any_batch;
  std::vector<TensorType> inputs, outputs;
  Dims sizes;                  ///< what a launch evaluates, each once: arguments of the call, behind the inputs and
                               ///< Kernel::numbers
  std::string cuda_text;       ///< see set_always_emit_cuda()
  std::weak_ptr<Arena> arena;  ///< which owns the operator that owns this
};

}  // namespace thunder
