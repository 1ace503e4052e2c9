// torch: scaled dot product attention.  The body is PyTorch's decomposition into matrix products and softmax; the fused
// kernels belong to the executor `sdpa`.
#include "ops/torch/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {

constexpr const char* kName = "scaled_dot_product_attention";

// ---- which kernel ---------------------------------------------------------------------------------------------------

namespace {

struct Params {
  const TensorType &q, &k, &v;
  const TensorType* mask;
  double dropout;
  bool causal, gqa;
};

Params params(const Args& a) {
  return {a.tensor("query"),   a.tensor("key"),
          a.tensor("value"),   a.has("attn_mask") ? &a.tensor("attn_mask") : nullptr,
          a.real("dropout_p"), a.flag("is_causal"),
          a.flag("enable_gqa")};
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

bool mask_shape_fits(const Params& p) {
  if (!p.mask) return true;
  const Dims& m = p.mask->shape;
  if (p.mask->requires_grad || (m.size() != 2 && m.size() != 4)) return false;
  size_t n = m.size();
  if (!one_or(m[n - 2], p.q.shape[2]) || !one_or(m[n - 1], p.k.shape[2])) return false;
  return n == 2 || (one_or(m[0], p.q.shape[0]) && one_or(m[1], p.q.shape[1]));
}

bool flash_cpu_fits(const Params& p) {
  if (p.dropout > 0 || !fits_fused(p) || !mask_shape_fits(p)) return false;
  if (p.v.shape[3] != p.q.shape[3]) return false;
  return last_stride_is_one(p, false) && is_floating(p.q.dtype) && !is_float8(p.q.dtype);
}

bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

// 16-bit kernels read 16 bytes at a time.
bool rows_are_aligned(const TensorType& t) {
  for (size_t i = 0; i < 3; ++i)
    if (t.shape[i] != 1 && mod(t.strides[i], 8) != 0) return false;
  return true;
}

bool is_trained(const Params& p) { return p.q.requires_grad || p.k.requires_grad || p.v.requires_grad; }

// Top-left and bottom-right causal alignment agree only for a square; the kernel's is bottom-right, PyTorch's is
// top-left.
bool flash_cuda_fits(const Params& p, int capability) {
  if (p.mask || !fits_fused(p) || !is_half(p.q.dtype) || capability < 80) return false;
  bool small_shared_memory =
      (capability >= 86 && capability <= 89) || capability >= 120;  // too small for a wide backward
  if (small_shared_memory && is_trained(p) && p.q.shape[3] > 192) return false;
  if (p.v.shape[3] != p.q.shape[3] || p.q.shape[3] > 256 || mod(p.q.shape[3], 8) != 0) return false;
  if (p.causal && p.q.shape[2] != p.k.shape[2]) return false;
  for (const TensorType* t : {&p.q, &p.k, &p.v})
    if (!rows_are_aligned(*t)) return false;
  return last_stride_is_one(p, true);
}

bool efficient_fits(const Params& p, int capability) {
  if (!fits_fused(p) || !(is_half(p.q.dtype) || p.q.dtype == DType::f32)) return false;
  if (capability < 80 && p.q.dtype == DType::bf16) return false;
  if (p.mask && p.mask->requires_grad) return false;
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

// Before 9.15.1 the last block of a length that no block divides could be wrong.
bool lengths_fit_cudnn(const Params& p, int64_t version) {
  constexpr int64_t kBlock = 128, kFixed = 91501;
  const Dim &rows = p.q.shape[2], &columns = p.k.shape[2];
  if (rows == 1 || columns == 1 || (p.causal && rows != columns)) return false;
  return version >= kFixed || (mod(rows, kBlock) == 0 && mod(columns, kBlock) == 0);
}

}  // namespace

AttentionKernel attention_kernel(const Args& args, const AttentionSupport& support) {
  Params p = params(args);
  if (p.q.device.type == DeviceType::cpu)
    return support.flash && flash_cpu_fits(p) ? AttentionKernel::FlashCpu : AttentionKernel::Math;
  if (p.q.device.type != DeviceType::cuda) return AttentionKernel::Math;
  if (p.mask && p.causal) return AttentionKernel::Math;
  if (support.flash && flash_cuda_fits(p, support.capability)) return AttentionKernel::FlashCuda;
  return support.efficient && efficient_fits(p, support.capability) ? AttentionKernel::Efficient
                                                                    : AttentionKernel::Math;
}

bool fits_cudnn_attention(const Args& args, const AttentionSupport& support) {
  constexpr int64_t kOldest = 90000, kMostHeads = 65535, kMostHeadSize = 128;
  Params p = params(args);
  if (!support.cudnn || support.cudnn_version < kOldest || support.capability < 80) return false;
  if (p.q.device.type != DeviceType::cuda || p.mask || p.dropout != 0 || !fits_fused(p) || !is_half(p.q.dtype))
    return false;
  if (p.q.shape[0] > kMostHeads || p.q.shape[1] > kMostHeads) return false;
  for (const TensorType* t : {&p.q, &p.k, &p.v})
    if (t->shape[3] > kMostHeadSize || mod(t->shape[3], 8) != 0 || !fits_bulk_copies(*t)) return false;
  return last_stride_is_one(p, false) && lengths_fit_cudnn(p, support.cudnn_version);
}

Dims attention_strides(AttentionKernel kernel, const TensorType& q, const TensorType& v) {
  Dims shape = q.shape;
  shape.back() = v.shape.back();
  if (kernel == AttentionKernel::FlashCpu || kernel == AttentionKernel::FlashCuda) return preserve_format_strides(q);
  if (kernel == AttentionKernel::Math) return contiguous_strides(shape);
  Dim head = shape[3], row = shape[1] * head;
  return {shape[2] * row, head, row, 1};
}

double attention_scale(const Args& args) {
  if (args.has("scale")) return args.real("scale");
  return 1.0 / std::sqrt(static_cast<double>(args.tensor("query").shape.back().specialize()));
}

Expr additive_mask(Builder& b, const Arg& mask, DType t) {
  const TensorType& m = mask.value().tensor();
  if (!is_bool(m.dtype)) return b.expr(mask);
  Arg zeros = full(b, m.shape, 0.0, t, m.device);
  return b("prims.where", mask, zeros, -std::numeric_limits<double>::infinity());
}

// ---- the decomposition ----------------------------------------------------------------------------------------------

namespace {

void check(const Args& a) {
  const TensorType &q = a.tensor("query"), &k = a.tensor("key"), &v = a.tensor("value");
  THUNDER_CHECK(q.dtype == k.dtype && q.dtype == v.dtype, Runtime, kName,
                "Expected query, key, and value to have the same dtype, "
                "but got query.dtype: ",
                cpp_type_name(q.dtype), " key.dtype: ", cpp_type_name(k.dtype),
                " and value.dtype: ", cpp_type_name(v.dtype), " instead.");
  THUNDER_CHECK(q.device == k.device && q.device == v.device, Runtime, kName,
                "Expected query, key, and value to have the same "
                "device type, but got query.device: ",
                q.device, " key.device: ", k.device, " and value.device: ", v.device, " instead.");
  THUNDER_CHECK(q.rank() >= 2 && k.rank() >= 2 && v.rank() >= 2, Runtime, kName,
                "Expected query, key, and value to all be  at "
                "least 2 dimensional, but got query.dim: ",
                q.rank(), " key.dim: ", k.rank(), " and value.dim: ", v.rank(), " instead.");
  THUNDER_CHECK(is_floating(q.dtype), Runtime, kName, "expected scalar type Float but found ",
                scalar_type_name(q.dtype));
  double p = a.real("dropout_p");
  THUNDER_CHECK(p >= 0 && p <= 1, Runtime, kName, "dropout probability has to be between 0 and 1, but got ", p);
  if (!a.has("attn_mask")) return;
  const TensorType& m = a.tensor("attn_mask");
  THUNDER_CHECK(is_bool(m.dtype) || m.dtype == DType::f32 || m.dtype == q.dtype, Runtime, kName,
                "Expected attn_mask dtype to be bool "
                "or float or to match query dtype, but got attn_mask.dtype: ",
                cpp_type_name(m.dtype), " and  query.dtype: ", cpp_type_name(q.dtype), " instead.");
  THUNDER_CHECK(m.rank() >= 2, Index, kName, "Dimension out of range (expected to be in range of [-",
                std::max<int64_t>(m.rank(), 1), ", ", std::max<int64_t>(m.rank(), 1) - 1, "], but got -2)");
  THUNDER_CHECK(m.device == q.device, Runtime, kName,
                "Expected all tensors to be on the same device, but got query on ", q.device, " and attn_mask on ",
                m.device);
}

// Each key (or value) head once for every query head that it serves.
Expr repeat_heads(Builder& b, const Expr& x, const Dim& query_heads) {
  size_t at = x.shape().size() - 3;
  const Dim& heads = x.shape()[at];
  THUNDER_CHECK(mod(query_heads, heads) == 0, Runtime, kName,
                "Number of heads in key and value must divide the number of heads in query, got ", heads, " and ",
                query_heads);
  if (heads == query_heads) return x;
  Dims wide = x.shape(), out = x.shape();
  wide.insert(wide.begin() + static_cast<long>(at) + 1, floordiv(query_heads, heads));
  out[at] = query_heads;
  Expr expanded = b("torch.expand", b("torch.unsqueeze", x, static_cast<int64_t>(at) + 1), wide);
  return b("torch.reshape", expanded, out);
}

// 0 where the query's position is not before the key's, -inf elsewhere; both counted from the start.
Expr causal_mask(Builder& b, const Dim& rows, const Dim& columns, DType t, Device device) {
  auto count = [&](const Dim& n, int64_t dim) {
    Expr i = b("prims.iota", n, 0, 1, kw("dtype", DType::i64), kw("device", device));
    return b("prims.broadcast_in_dim", i, Dims{rows, columns}, Arg(std::vector<int64_t>{dim}));
  };
  Expr row = count(rows, 0), column = count(columns, 1);
  return additive_mask(b, b("prims.ge", row, column), t);
}

Arg attention_body(Builder& b, const Args& a) {
  check(a);
  const TensorType q_type = a.tensor("query"), v_type = a.tensor("value");
  AttentionKernel kernel = attention_kernel(a);
  bool causal = a.flag("is_causal"), masked = a.has("attn_mask");
  THUNDER_CHECK(!(causal && masked) || kernel != AttentionKernel::Math, Runtime, kName,
                "Explicit attn_mask should not be set when is_causal=True");
  DType t = q_type.dtype, c = compute_type(t);
  Expr q = to_dtype(b.expr(a["query"]), c), k = to_dtype(b.expr(a["key"]), c), v = to_dtype(b.expr(a["value"]), c);
  if (a.flag("enable_gqa")) {
    THUNDER_CHECK(q.rank() >= 3 && k.rank() >= 3 && v.rank() >= 3, Index, kName,
                  "Dimension out of range (expected to be in range of [-2, 1], but got -3)");
    k = repeat_heads(b, k, q.shape()[q.rank() - 3]);
    v = repeat_heads(b, v, q.shape()[q.rank() - 3]);
  }
  // The scale is split between both factors, so that the product does not overflow in 16 bits.
  double scale = attention_scale(a), root = std::sqrt(std::abs(scale));
  Expr scaled_q = q * (scale < 0 ? -root : root);
  Expr scaled_k = b("torch.transpose", k, -2, -1) * root;
  Expr scores = b("torch.matmul", scaled_q, scaled_k);
  if (masked) scores = scores + additive_mask(b, a["attn_mask"], t);
  if (causal) scores = scores + causal_mask(b, q.shape()[q.rank() - 2], k.shape()[k.rank() - 2], c, q_type.device);
  Expr weights = b("torch._safe_softmax", scores, -1);
  if (a.real("dropout_p") > 0) weights = b("torch.dropout", weights, a["dropout_p"], true);
  Expr y = to_dtype(b("torch.matmul", weights, v), t);
  // The same values with the strides that eager's kernel gives its result.
  const bool math = kernel == AttentionKernel::Math;  // which broadcasts
  return with_strides(y, math ? contiguous_strides(y.shape()) : attention_strides(kernel, q_type, v_type)).arg();
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
               "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
     .doc = "softmax(query @ key^T * scale + mask) @ value.", .tags = kMatmul, .body = attention_body,
     .python = "torch.nn.functional.scaled_dot_product_attention torch._C._nn.scaled_dot_product_attention"},
};
// clang-format on

}  // namespace

Records attention() { return kRecords; }

}  // namespace thunder::ops::torch
