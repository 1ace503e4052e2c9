// The gradient of an embedding's weight on NVIDIA GPUs, without a sort.
//
// Takes torch.embedding_backward for up to kMaxTokens contiguous indices and float32, bf16 and f16 gradients; PyTorch's
// own operator, which sorts the indices, stays for the rest.  Sums are kept in float32 and in the order of the indices,
// so that the result is the same each time.
#pragma once

#include <memory>

#include "passes/executor.h"

namespace thunder {

std::shared_ptr<Executor> make_embedding_executor();

}  // namespace thunder
