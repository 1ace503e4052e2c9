// Which of PyTorch's attention kernels a call of scaled_dot_product_attention can take: PyTorch's own preconditions
// (aten/src/ATen/native/transformers), repeated, because the kernels themselves do not check everything.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/builder.h"
#include "core/op.h"

namespace thunder::ops::torch {

inline constexpr std::string_view kAttention = "torch.scaled_dot_product_attention";
inline constexpr std::string_view kWindowedAttention = "torch.windowed_attention";

/// One of the two.
inline bool is_attention(const Op& op) { return op.full_name == kAttention || op.full_name == kWindowedAttention; }

enum class AttentionKernel {
  Math,  ///< matrix products and softmax
  FlashCpu,
  FlashCuda,
  Efficient,  ///< CUDA
};

/// Who computes a call in eager: cuDNN, another of PyTorch's fused kernels, or matrix products and softmax.
enum class EagerAttention : uint8_t { Cudnn, Fused, Math };

/// What may be taken, from outside of the call: PyTorch's switches (torch.nn.attention.sdpa_kernel) and the GPU.
struct AttentionSupport {
  bool flash = true, efficient = true, cudnn = true;
  int capability = 90;        ///< of the CUDA device: 10 * major + minor
  int64_t cudnn_version = 0;  ///< 0: there is no cuDNN
  bool cudnn_bias = true;     ///< whether masks are for cuDNN, too
  /// For this call, which has dropout; none: not asked.
  std::optional<EagerAttention> eager = std::nullopt;
};

/// The kernel that eager takes on the CPU; on CUDA flash where it can, else efficient, else math.
AttentionKernel attention_kernel(const Args& args, const AttentionSupport& support = {});

/// Whether cuDNN's kernel can take the call.
bool fits_cudnn_attention(const Args& args, const AttentionSupport& support);

/// Whether a mask with the same elements draws the same numbers: without dropout none are drawn.
bool draws_alike(const Args& args, const TensorType& mask);

/// By how many zeros a CUDA kernel's operand is longer than a head that it cannot read: 16-bit kernels read 8 elements
/// at a time, the efficient kernel 4 of float32.
Dim attention_padding(const TensorType& t);

/// Strides of attention's result by that kernel.
Dims attention_strides(AttentionKernel kernel, const TensorType& query, const TensorType& value);

/// `scale`, or 1 / sqrt(head size).
double attention_scale(const Args& args);

/// A boolean mask as numbers to add: 0 where true, -inf where false.  Other masks as they are.
Expr additive_mask(Builder& b, const Arg& mask, DType t);

}  // namespace thunder::ops::torch
