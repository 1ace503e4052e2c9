// Preconditions of the kernels for attention (attention.h).
#include <cmath>

#include "ops/common.h"
#include "ops/torch/attention.h"

namespace thunder::ops::torch {
namespace {

/// Query, key and value as a kernel reads them: with the padding of attention_padding().
struct Params {
  TensorType q, k, v;
  const TensorType* mask;
  double dropout;
  bool causal, gqa, windowed;
};

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

TensorType padded(const TensorType& t) {
  TensorType out = t;
  if (const Dim more = attention_padding(t); more != 0) {
    out.shape.back() += more;
    out.strides = contiguous_strides(out.shape);
  }
  return out;
}

Params params(const Args& a) {
  const bool windowed = a.op().full_name == kWindowedAttention;
  return {.q = padded(a.tensor("query")),
          .k = padded(a.tensor("key")),
          .v = padded(a.tensor("value")),
          .mask = !windowed && a.has("attn_mask") ? &a.tensor("attn_mask") : nullptr,
          .dropout = a.real("dropout_p"),
          .causal = !windowed && a.flag("is_causal"),
          .gqa = a.flag("enable_gqa"),
          .windowed = windowed};
}

bool heads_and_batches_fit(const Params& p) {
  if (p.q.shape[0] != p.k.shape[0] || p.q.shape[0] != p.v.shape[0]) return false;
  const Dim &q = p.q.shape[1], &k = p.k.shape[1], &v = p.v.shape[1];
  if (k != v) return false;
  return p.gqa ? k != 0 && mod(q, k) == 0 : q == k;
}

// With a query, key and value of rank 4: what every fused kernel needs.
bool fits_fused(const Params& p) {
  if (p.q.rank() != 4 || p.k.rank() != 4 || p.v.rank() != 4) return false;
  if (p.q.dtype != p.k.dtype || p.q.dtype != p.v.dtype) return false;
  if (p.q.shape[2] == 0 || p.k.shape[2] == 0 || p.k.shape[2] != p.v.shape[2]) return false;
  if (p.q.shape[3] != p.k.shape[3]) return false;
  return heads_and_batches_fit(p);
}

bool last_stride_is_one(const Params& p, bool ignore_singleton) {
  if (ignore_singleton && p.q.shape.back() == 1) return true;
  return p.q.strides.back() == 1 && p.k.strides.back() == 1 && p.v.strides.back() == 1;
}

bool one_or(const Dim& d, const Dim& n) { return d == n || d == 1; }

bool mask_broadcasts(const Params& p) {
  if (!p.mask) return true;
  const Dims &m = p.mask->shape, scores{p.q.shape[0], p.q.shape[1], p.q.shape[2], p.k.shape[2]};
  if (m.size() > scores.size()) return false;
  for (size_t i = 0; i < m.size(); ++i)
    if (!one_or(m[i], scores[scores.size() - m.size() + i])) return false;
  return true;
}

bool mask_shape_fits(const Params& p) {
  if (!p.mask) return true;
  const size_t rank = p.mask->shape.size();
  return !p.mask->requires_grad && (rank == 2 || rank == 4) && mask_broadcasts(p);
}

bool flash_cpu_fits(const Params& p) {
  if (p.windowed || p.dropout > 0 || !fits_fused(p) || !mask_shape_fits(p)) return false;
  if (p.v.shape[3] != p.q.shape[3]) return false;
  return last_stride_is_one(p, false) && is_floating(p.q.dtype) && !is_float8(p.q.dtype);
}

// 16-bit kernels read 16 bytes at a time.
bool rows_are_aligned(const TensorType& t) {
  for (size_t i = 0; i < 3; ++i)
    if (t.shape[i] != 1 && mod(t.strides[i], 8) != 0) return false;
  return true;
}

bool is_trained(const Params& p) { return p.q.requires_grad || p.k.requires_grad || p.v.requires_grad; }

// Where no weight is kept there is nothing for a kernel to scale.
bool keeps_some(const Params& p) { return p.dropout < 1; }

// Top-left and bottom-right causal alignment agree only for a square; the kernel's is bottom-right, PyTorch's is
// top-left.
bool flash_cuda_fits(const Params& p, int capability) {
  if (p.mask || !fits_fused(p) || !is_half(p.q.dtype) || capability < 80 || !keeps_some(p)) return false;
  bool small_shared_memory =
      (capability >= 86 && capability <= 89) || capability >= 120;  // too small for a wide backward
  if (small_shared_memory && is_trained(p) && p.q.shape[3] > 192) return false;
  if (p.v.shape[3] != p.q.shape[3] || p.q.shape[3] > 256 || mod(p.q.shape[3], 8) != 0) return false;
  if (p.causal && p.q.shape[2] != p.k.shape[2]) return false;
  for (const TensorType* t : {&p.q, &p.k, &p.v})
    if (!rows_are_aligned(*t)) return false;
  return last_stride_is_one(p, true);
}

// The kernel gives the gradient in the query's type, which is then the mask's.  It counts blocks of threads by samples
// and heads: for more of them PyTorch cuts the batch, and adds up the parts' gradients of a mask as if they were one's.
// Where eager cannot be asked who draws dropout's numbers, its rule for this kernel.
bool trained_mask_fits(const Params& p, const AttentionSupport& support) {
  constexpr int64_t kMostBlocks = 65535;
  if (!p.mask || !p.mask->requires_grad) return true;
  if (p.mask->dtype != p.q.dtype || p.q.shape[0] > kMostBlocks || p.q.shape[1] > kMostBlocks) return false;
  if (p.dropout == 0) return true;
  return support.eager ? *support.eager == EagerAttention::Fused : p.mask->strides.back() == 1;
}

bool efficient_fits(const Params& p, const AttentionSupport& support) {
  if (p.windowed || !fits_fused(p) || !(is_half(p.q.dtype) || p.q.dtype == DType::f32) || !keeps_some(p)) return false;
  if (support.capability < 80 && p.q.dtype == DType::bf16) return false;
  if (!mask_broadcasts(p) || !trained_mask_fits(p, support)) return false;
  int64_t alignment = is_half(p.q.dtype) ? 8 : 4;
  for (const TensorType* t : {&p.q, &p.v})
    if (mod(t->shape[3], alignment) != 0 || t->shape[3] == 0) return false;
  if (p.q.shape[1] != p.k.shape[1]) return false;  // the raw kernel takes no grouped heads
  return last_stride_is_one(p, false);
}

// cuDNN's bulk copies take no dimension that is only broadcast.
bool fits_bulk_copies(const TensorType& t) {
  for (size_t i = 0; i < 3; ++i)
    if (t.shape[i] != 1 && t.strides[i] == 0) return false;
  return rows_are_aligned(t);
}

// One query, or one key, cuDNN does not take.  Where it is known at run time alone whether there is one, the executor
// has another way for it, which draws no dropout.
bool is_one(const Dim& length, const Params& p) { return (length.is_constant() || p.dropout != 0) && length == 1; }

// Before 9.15.1 the last block of a length that no block divides could be wrong.
bool lengths_fit_cudnn(const Params& p, int64_t version) {
  constexpr int64_t kBlock = 128, kFixed = 91501;
  const Dim &rows = p.q.shape[2], &columns = p.k.shape[2];
  ShapeEnv::Exactly scope;
  if (is_one(rows, p) || is_one(columns, p) || (p.causal && rows != columns)) return false;
  return version >= kFixed || (mod(rows, kBlock) == 0 && mod(columns, kBlock) == 0);
}

// If the keys leave 64 of the last 128, the backward with a bias treats the empty half as scores of 0: gradients of the
// query are NaN where all scores of a row are very negative (pytorch#196678).
bool bias_fits_cudnn(const Params& p, const AttentionSupport& support) {
  constexpr int64_t kBlock = 128, kHalf = 64;
  if (!p.mask) return true;
  if (!support.cudnn_bias || p.causal || !mask_shape_fits(p)) return false;
  return !is_trained(p) || mod(p.k.shape[2], kBlock) != kHalf;
}

// Those that eager leaves to cuDNN, so that a seed gives eager's numbers.  Where eager cannot be asked, its rule since
// cuDNN is known to round probabilities to sixteenths.
bool dropout_fits_cudnn(const Params& p, const AttentionSupport& support) {
  constexpr int64_t kPreferred = 91500, kSixteenths = 16;
  if (p.dropout == 0) return true;
  if (!keeps_some(p)) return false;
  if (support.eager) return *support.eager == EagerAttention::Cudnn;
  const int major = support.capability / 10;
  return support.cudnn_version > kPreferred && (major == 9 || major == 10) &&
         p.dropout * kSixteenths == std::floor(p.dropout * kSixteenths);
}

}  // namespace

// PyTorch's choice of a kernel looks at the mask's last stride.
bool draws_alike(const Args& args, const TensorType& mask) {
  return args.real("dropout_p") == 0 || mask.strides.back().same(1) == args.tensor("attn_mask").strides.back().same(1);
}

Dim attention_padding(const TensorType& t) {
  const bool half = is_half(t.dtype);
  if (t.device.type != DeviceType::cuda || t.rank() != 4 || !(half || t.dtype == DType::f32)) return 0;
  const Dim &size = t.shape.back(), alignment = half ? 8 : 4;
  return size.is_constant() ? ceildiv(size, alignment) * alignment - size : Dim(0);
}

AttentionKernel attention_kernel(const Args& args, const AttentionSupport& support) {
  Params p = params(args);
  if (p.q.device.type == DeviceType::cpu)
    return support.flash && flash_cpu_fits(p) ? AttentionKernel::FlashCpu : AttentionKernel::Math;
  if (p.q.device.type != DeviceType::cuda) return AttentionKernel::Math;
  if (p.mask && p.causal) return AttentionKernel::Math;
  if (support.flash && flash_cuda_fits(p, support.capability)) return AttentionKernel::FlashCuda;
  return support.efficient && efficient_fits(p, support) ? AttentionKernel::Efficient : AttentionKernel::Math;
}

bool fits_cudnn_attention(const Args& args, const AttentionSupport& support) {
  constexpr int64_t kOldest = 90000, kMostHeads = 65535, kMostHeadSize = 128;
  Params p = params(args);
  if (!support.cudnn || support.cudnn_version < kOldest || support.capability < 80) return false;
  if (p.q.device.type != DeviceType::cuda || p.windowed || !fits_fused(p) || !is_half(p.q.dtype)) return false;
  if (p.q.shape[0] > kMostHeads || p.q.shape[1] > kMostHeads) return false;
  for (const TensorType* t : {&p.q, &p.k, &p.v})
    if (t->shape[3] > kMostHeadSize || mod(t->shape[3], 8) != 0 || !fits_bulk_copies(*t)) return false;
  return last_stride_is_one(p, false) && lengths_fit_cudnn(p, support.cudnn_version) && bias_fits_cudnn(p, support) &&
         dropout_fits_cudnn(p, support);
}

Dims attention_strides(AttentionKernel kernel, const TensorType& q, const TensorType& v) {
  Dims shape = q.shape;
  shape.back() = v.shape.back();
  if (kernel == AttentionKernel::FlashCpu || kernel == AttentionKernel::FlashCuda) return preserve_format_strides(q);
  if (kernel == AttentionKernel::Math) return contiguous_strides(shape);
  Dim head = shape[3], row = shape[1] * head;
  return {shape[2] * row, head, row, 1};
}

}  // namespace thunder::ops::torch
