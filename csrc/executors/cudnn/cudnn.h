// Attention by cuDNN, through PyTorch's operators for it, forward and backward: on Hopper the fastest for 16-bit
// training.  Reads grouped keys and values directly.  Takes torch.scaled_dot_product_attention where PyTorch's
// preconditions for cuDNN hold (ops/torch/attention.h), masks as numbers to add, dropout where eager leaves it to
// cuDNN; before `sdpa` in the default list, as PyTorch prefers it.
#pragma once

#include <memory>

#include "passes/executor.h"

namespace thunder {

std::shared_ptr<Executor> make_cudnn_executor();

/// Once its operators are lowered by their records: lengths that are known at run time may be 1, which cuDNN does not
/// take.
void lower_cudnn_of_any_length();

}  // namespace thunder
