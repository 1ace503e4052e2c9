// Scans on NVIDIA GPUs: cumsum, cumprod and logcumsumexp, and their gradients, each as one kernel, or as two where few
// long rows are cut in parts.
//
// Halves are joined in float32 and rounded once.  A gradient of cumsum is a scan from the end; that of cumprod needs no
// division, and so no look whether there are zeros, for which PyTorch's waits.
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition scan_executor();

}  // namespace thunder
