// Attention of one query a head under a mask on NVIDIA GPUs: a token that is generated with a static cache.
//
// Takes torch.scaled_dot_product_attention without gradients where each head has a single query and the mask is the
// same for all heads.  PyTorch's and cuDNN's kernels for masks divide work by queries, so that one query a head leaves
// most of a GPU idle, and the memory-efficient one wants each grouped head of keys repeated.  The arithmetic is in
// float32, and the order of sums does not depend on timing.
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition decoding_executor();

}  // namespace thunder
