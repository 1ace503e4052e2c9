// Which of PyTorch's attention kernels a call of scaled_dot_product_attention can take: PyTorch's own preconditions
// (aten/src/ATen/native/transformers), repeated, because the kernels themselves do not check everything.
#pragma once

#include "core/builder.h"
#include "core/op.h"

namespace thunder::ops::torch {

enum class AttentionKernel {
  Math,       ///< matrix products and softmax
  FlashCpu,
  FlashCuda,
  Efficient,  ///< CUDA
};

/// The kernel that eager takes on the CPU; on CUDA flash where it can, else efficient, else math.
AttentionKernel attention_kernel(const Args& args);

/// Strides of attention's result by that kernel.
Dims attention_strides(AttentionKernel kernel, const TensorType& query, const TensorType& value);

/// `scale`, or 1 / sqrt(head size).
double attention_scale(const Args& args);

/// A boolean mask as numbers to add: 0 where true, -inf where false.  Other masks as they are.
Expr additive_mask(Builder& b, const Arg& mask, DType t);

}  // namespace thunder::ops::torch
