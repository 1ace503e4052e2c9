// Which of PyTorch's attention kernels a call of scaled_dot_product_attention can take: PyTorch's own preconditions
// (aten/src/ATen/native/transformers), repeated, because the kernels themselves do not check everything.
#pragma once

#include "core/builder.h"
#include "core/op.h"

namespace thunder::ops::torch {

enum class AttentionKernel {
  Math,  ///< matrix products and softmax
  FlashCpu,
  FlashCuda,
  Efficient,  ///< CUDA
};

/// What may be taken, from outside of the call: PyTorch's switches (torch.nn.attention.sdpa_kernel) and the GPU.
struct AttentionSupport {
  bool flash = true, efficient = true, cudnn = true;
  int capability = 90;        ///< of the CUDA device: 10 * major + minor
  int64_t cudnn_version = 0;  ///< 0: there is no cuDNN
};

/// The kernel that eager takes on the CPU; on CUDA flash where it can, else efficient, else math.
AttentionKernel attention_kernel(const Args& args, const AttentionSupport& support = {});

/// Whether cuDNN's kernel can take the call.  No masks: eager's choice for them is the efficient kernel's job here.
bool fits_cudnn_attention(const Args& args, const AttentionSupport& support);

/// Strides of attention's result by that kernel.
Dims attention_strides(AttentionKernel kernel, const TensorType& query, const TensorType& value);

/// `scale`, or 1 / sqrt(head size).
double attention_scale(const Args& args);

/// A boolean mask as numbers to add: 0 where true, -inf where false.  Other masks as they are.
Expr additive_mask(Builder& b, const Arg& mask, DType t);

}  // namespace thunder::ops::torch
