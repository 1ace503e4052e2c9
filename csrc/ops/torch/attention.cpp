// torch: scaled dot product attention.  The body is PyTorch's decomposition into matrix products and softmax; the fused
// kernels belong to the executor `sdpa`.
#include "ops/torch/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dtype_error.h"
#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {

constexpr const char* kName = "scaled_dot_product_attention";

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
  THUNDER_CHECK_DTYPE(q.dtype == k.dtype && q.dtype == v.dtype, kName,
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
  THUNDER_CHECK_DTYPE(is_bool(m.dtype) || m.dtype == DType::f32 || m.dtype == q.dtype, kName,
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

// Where row i sees the columns from i - left to i + right, counted from the last row and column; -1: all on that side.
Arg window_mask(Builder& b, const Args& a) {
  const Dim &rows = a.tensor("query").shape[2], &columns = a.tensor("key").shape[2];
  auto count = [&](const Dim& n, const Dim& start, int64_t dim) {
    Expr i = b("prims.iota", n, start, 1, kw("dtype", DType::i64), kw("device", a.tensor("query").device));
    return b("prims.broadcast_in_dim", i, Dims{rows, columns}, Arg(std::vector<int64_t>{dim}));
  };
  const Dim own = columns - rows;
  const int64_t left = a.integer("left"), right = a.integer("right");
  const Expr column = count(columns, 0, 1);
  std::vector<Expr> sides;
  if (left >= 0) sides.push_back(b("prims.ge", column, count(rows, own - left, 0)));
  if (right >= 0) sides.push_back(b("prims.ge", count(rows, own + right, 0), column));
  if (sides.empty()) return {};
  return (sides.size() == 1 ? sides[0] : b("prims.bitwise_and", sides[0], sides[1])).arg();
}

Arg windowed_body(Builder& b, const Args& a) {
  THUNDER_CHECK(a.tensor("query").rank() == 4 && a.tensor("key").rank() == 4, Value, "windowed_attention",
                "query and key must have 4 dimensions, but got ", a.tensor("query").rank(), " and ",
                a.tensor("key").rank());
  return b("torch.scaled_dot_product_attention", a["query"], a["key"], a["value"], window_mask(b, a), a["dropout_p"],
           false, kw("scale", a["scale"]), kw("enable_gqa", a["enable_gqa"]))
      .arg();
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
               "float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
     .doc = "softmax(query @ key^T * scale + mask) @ value.", .tags = kMatmul, .body = attention_body,
     .python = "torch.nn.functional.scaled_dot_product_attention torch._C._nn.scaled_dot_product_attention"},
    {.schema = "windowed_attention(Tensor query, Tensor key, Tensor value, int left, int right, float dropout_p=0.0, "
               "*, float? scale=None, bool enable_gqa=False) -> Tensor",
     .doc = "Attention in which row i sees the columns from i - left to i + right, counted from the last row and "
            "column; -1: all on that side.", .tags = kMatmul, .body = windowed_body},
};
// clang-format on

}  // namespace

Records attention() { return kRecords; }

}  // namespace thunder::ops::torch
