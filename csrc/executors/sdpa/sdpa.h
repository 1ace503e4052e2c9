// Fused attention by PyTorch's own kernels: flash on the CPU, flash and memory-efficient on CUDA, forward and backward,
// with the log-sum-exp saved for the backward.  Takes torch.scaled_dot_product_attention where PyTorch's preconditions
// for a kernel hold (ops/torch/attention.h); other calls are opened into matrix products and softmax.
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition sdpa_executor();

}  // namespace thunder
