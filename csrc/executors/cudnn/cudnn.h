// Attention by cuDNN, through PyTorch's operators for it, forward and backward: on Hopper the fastest for 16-bit
// training.  Reads grouped keys and values directly.  Takes torch.scaled_dot_product_attention where PyTorch's
// preconditions for cuDNN hold (ops/torch/attention.h), masks as numbers to add, dropout where eager leaves it to
// cuDNN; before `sdpa` in the default list, as PyTorch prefers it.
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition cudnn_executor();

}  // namespace thunder
