// Scans on NVIDIA GPUs: cumsum, cumprod and logcumsumexp, and their gradients, each as one kernel, or as two where few
// long rows are cut in parts.
//
// Halves are joined in float32 and rounded once.  A gradient of cumsum is a scan from the end; that of cumprod needs no
// division, and so no look whether there are zeros, for which PyTorch's waits.
#pragma once

#include <memory>

#include "passes/executor.h"

namespace thunder {

std::shared_ptr<Executor> make_scan_executor();

}  // namespace thunder
