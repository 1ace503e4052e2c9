// torch.*: scans, what is joined of all elements up to each one along a dimension, and their gradients.
#include <limits>

#include "core/builder.h"
#include "core/error.h"
#include "ops/common.h"

namespace thunder::ops::torch {
namespace {

int64_t scanned_dim(const Args& a) {
  return canonical_dim(a.op().schema.name, a.integer("dim"), a.tensor("input").rank());
}

Arg cumulative(Builder& b, const Args& a, std::string_view prim) {
  DType t = a.tensor("input").dtype;
  if (a.has("dtype")) t = a.dtype("dtype");
  else if (is_bool(t) || is_integral(t)) t = DType::i64;
  return b(prim, convert(b, a["input"], t), scanned_dim(a));
}

Arg cumsum_body(Builder& b, const Args& a) { return cumulative(b, a, "prims.cumsum"); }
Arg cumprod_body(Builder& b, const Args& a) { return cumulative(b, a, "prims.cumprod"); }

template <auto& Prim>
Arg scan_by(Builder& b, const Args& a) {
  return b(Prim, a["input"], scanned_dim(a));
}
constexpr char kCummax[] = "prims.cummax", kCummin[] = "prims.cummin", kLogcumsumexp[] = "prims.logcumsumexp";

Types cumprod_backward_meta(const Args& a) {
  const TensorType& t = a.tensor("input");
  return {contiguous_type(t.dtype, t.device, t.shape)};
}

int64_t rank_of(const Args& a) { return a.tensor("input").rank(); }

Arg reversed_cumsum_body(Builder& b, const Args& a) {
  const std::vector<int64_t> dim{scanned_dim(a)};
  if (rank_of(a) == 0) return b("prims.cumsum", a["input"], dim[0]);
  return b("torch.flip", b("prims.cumsum", b("torch.flip", a["input"], dim), dim[0]), dim);
}

void reversed_cumsum_vjp(VjpContext& c) {
  c.put("input", c.b("torch.cumsum", c.grad(), c.args()["dim"], kw("dtype", c.in("input").dtype())));
}

// sum over j >= i of g[j] exp(x[i] - out[j]), as logarithms of its positive and of its negative part.
Arg logcumsumexp_backward_body(Builder& b, const Args& a) {
  Expr g = b.expr(a["grad"]), x = b.expr(a["input"]), out = b.expr(a["output"]);
  THUNDER_CHECK(g.shape() == x.shape() && out.shape() == x.shape(), Runtime, "logcumsumexp_backward",
                "the gradient and the output have the shape of the input (", join(x.shape()), "), got (",
                join(g.shape()), ") and (", join(out.shape()), ")");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<int64_t> dim{scanned_dim(a)};
  const bool flips = rank_of(a) > 0;
  const auto flipped = [&](const Expr& e) { return flips ? b("torch.flip", e, dim) : e; };
  const auto weighted = [&](const Expr& logarithm) {
    return b("torch.exp", flipped(b("torch.logcumsumexp", flipped(logarithm - out), dim[0])) + x);
  };
  if (is_complex(x.dtype())) return conj(weighted(b("torch.log", conj(g))));
  const auto part = [&](const Expr& of_one_sign) {
    return weighted(b("torch.where", b("torch.gt", of_one_sign, 0), b("torch.log", of_one_sign), -kInfinity));
  };
  return part(g) - part(-g);
}

// With w[j] = sum over i <= j of h[i] exp(x[i] - out[j]), h the gradient: that of g is w, of out -g conj(w), of x conj(h)
// times the result.  w in the same way as above.
void logcumsumexp_backward_vjp(VjpContext& c) {
  const Expr h = c.grad(), g = c.in("grad"), x = c.in("input"), out = c.in("output");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto weighted = [&](const Expr& logarithm) {
    Expr sum = logarithm + x;
    // The imaginary part of a complex sum with an infinity is NaN.
    if (is_complex(x.dtype()))
      sum = c.b("torch.where", c.b("torch.eq", c.b("torch.real", x), -kInfinity), -kInfinity, sum);
    return c.b("torch.exp", c.b("torch.logcumsumexp", sum, c.args()["dim"]) - out);
  };
  const auto part = [&](const Expr& of_one_sign) {
    return weighted(c.b("torch.where", c.b("torch.gt", of_one_sign, 0), c.b("torch.log", of_one_sign), -kInfinity));
  };
  const Expr w = is_complex(x.dtype()) ? weighted(c.b("torch.log", h)) : part(h) - part(-h);
  c.put("grad", to_dtype(w, g.dtype()));
  c.put("output", to_dtype(-(g * conj(w)), out.dtype()));
  c.put("input", to_dtype(conj(h) * c.out(), x.dtype()));
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "cumsum(Tensor input, int dim, *, dtype? dtype=None) -> Tensor",
     .doc = "Sums of all elements up to each one along `dim`.", .tags = kNoTag, .body = cumsum_body, .aten = "cumsum",
     .python = "torch.cumsum torch.Tensor.cumsum"},
    {.schema = "cumprod(Tensor input, int dim, *, dtype? dtype=None) -> Tensor",
     .doc = "Products of all elements up to each one along `dim`.", .tags = kNoTag, .body = cumprod_body,
     .aten = "cumprod", .python = "torch.cumprod torch.Tensor.cumprod"},
    {.schema = "cummax(Tensor input, int dim) -> (Tensor, Tensor)",
     .doc = "The largest of all elements up to each one along `dim`, and their indices (int64).", .tags = kNoTag,
     .body = scan_by<kCummax>, .aten = "cummax", .python = "torch.cummax torch.Tensor.cummax"},
    {.schema = "cummin(Tensor input, int dim) -> (Tensor, Tensor)",
     .doc = "The smallest of all elements up to each one along `dim`, and their indices (int64).", .tags = kNoTag,
     .body = scan_by<kCummin>, .aten = "cummin", .python = "torch.cummin torch.Tensor.cummin"},
    {.schema = "logcumsumexp(Tensor input, int dim) -> Tensor",
     .doc = "log(exp(x0) + exp(x1) + ...) up to each element along `dim`, without overflow.", .tags = kNoTag,
     .body = scan_by<kLogcumsumexp>, .aten = "logcumsumexp", .python = "torch.logcumsumexp torch.Tensor.logcumsumexp"},
    {.schema = "cumprod_backward(Tensor grad, Tensor input, int dim, Tensor output) -> Tensor",
     .doc = "The gradient of cumprod's input.", .tags = kWaits, .meta = cumprod_backward_meta,
     .aten = "cumprod_backward", .python = "torch.ops.aten.cumprod_backward"},
    {.schema = "reversed_cumsum(Tensor input, int dim) -> Tensor",
     .doc = "Sums of all elements from each one on along `dim`: the gradient of cumsum's input.", .tags = kLinear,
     .body = reversed_cumsum_body, .vjp = reversed_cumsum_vjp},
    {.schema = "logcumsumexp_backward(Tensor grad, Tensor input, Tensor output, int dim) -> Tensor",
     .doc = "The gradient of logcumsumexp's input.", .tags = kNoTag, .body = logcumsumexp_backward_body,
     .vjp = logcumsumexp_backward_vjp},
};
// clang-format on

}  // namespace

Records scan() { return kRecords; }

}  // namespace thunder::ops::torch
