// torch.*: reductions.
#include <algorithm>
#include <cmath>

#include "core/builder.h"
#include "core/dtype_error.h"
#include "core/error.h"
#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

constexpr int64_t kMostDims = 64;  // of a tensor whose dimensions are named: PyTorch marks them in 64 bits

std::vector<int64_t> dims_of(const Args& a) {
  const int64_t rank = a.tensor("input").rank();
  const bool named = !a["dim"].is_none() && !(a["dim"].is_sequence() && a["dim"].items().empty());
  THUNDER_CHECK(!named || rank <= kMostDims, Runtime, a.op().schema.name, "only tensors with up to ", kMostDims,
                " dims are supported, got one with ", rank);
  return canonical_dims(a.op().schema.name, a["dim"], rank);
}

bool keeps_dim(const Args& a) { return a.op().schema.index_of("keepdim") >= 0 && a.flag("keepdim"); }

Arg maybe_keep(Builder& b, const Args& a, const Arg& reduced, const std::vector<int64_t>& dims) {
  return keeps_dim(a) && a.tensor("input").rank() > 0 ? keep_dims(b, reduced, dims) : reduced;
}

bool given(const Args& a, std::string_view name) { return a.op().schema.index_of(name) >= 0 && a.has(name); }

// ---- sums -----------------------------------------------------------------------------------------------------------

// 16-bit floats are summed in f32, as eager's kernels do.
Arg reduce_in(Builder& b, std::string_view prim, const Arg& x, const std::vector<int64_t>& dims, DType result) {
  Arg in = convert(b, convert(b, x, result), compute_type(result));
  return convert(b, b(prim, in, dims), result);
}

Arg sum_body(Builder& b, const Args& a) {
  DType t = given(a, "dtype") ? a.dtype("dtype") : apply(Promotion::BoolToInt, a.tensor("input").dtype);
  if (!given(a, "dtype") && is_integral(t)) t = DType::i64;
  std::vector<int64_t> dims = dims_of(a);
  return maybe_keep(b, a, reduce_in(b, "prims.sum", a["input"], dims, t), dims);
}

Arg prod_all_body(Builder& b, const Args& a) {
  DType t = a.has("dtype") ? a.dtype("dtype") : a.tensor("input").dtype;
  if (!a.has("dtype") && (is_integral(t) || is_bool(t))) t = DType::i64;
  return reduce_in(b, "prims.prod", a["input"], canonical_dims("prod", nullptr, a.tensor("input").rank()), t);
}

Arg prod_body(Builder& b, const Args& a) {
  DType t = a.has("dtype") ? a.dtype("dtype") : a.tensor("input").dtype;
  if (!a.has("dtype") && (is_integral(t) || is_bool(t))) t = DType::i64;
  std::vector<int64_t> dims{canonical_dim("prod", a.integer("dim"), a.tensor("input").rank())};
  return maybe_keep(b, a, reduce_in(b, "prims.prod", a["input"], dims, t), dims);
}

Arg mean_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  DType t = given(a, "dtype") ? a.dtype("dtype") : x.dtype;
  THUNDER_CHECK_DTYPE(is_inexact(t), "mean", "could not infer output dtype. ",
                      given(a, "dtype") ? "Optional dtype must be" : "Input dtype must be",
                      " either a floating point or complex dtype. Got: ", torch_name(t));
  std::vector<int64_t> dims = dims_of(a);
  Arg in = convert(b, convert(b, a["input"], t), compute_type(t));
  Arg sum = b("prims.sum", in, dims);
  return maybe_keep(b, a, convert(b, b("prims.div", sum, real_number(count_of(x.shape, dims))), t), dims);
}

// A value of the result's shape, put back along the reduced dimensions.
Expr restore(VjpContext& c, const Expr& e, const std::vector<int64_t>& dims) {
  const Dims& shape = c.in("input").shape();
  Dims kept = shape;
  for (int64_t d : dims)
    if (!kept.empty()) kept[d] = 1;
  Expr r = equal(e.shape(), kept) ? e : c.b("torch.reshape", e, kept);
  return equal(kept, shape) ? r : c.b("torch.expand", r, shape);
}

Expr to_input_dtype(VjpContext& c, const Expr& e) { return to_dtype(e, c.in("input").dtype()); }

void sum_vjp(VjpContext& c) { c.put("input", to_input_dtype(c, restore(c, c.grad(), dims_of(c.args())))); }

void mean_vjp(VjpContext& c) {
  std::vector<int64_t> dims = dims_of(c.args());
  Expr g = c.b("torch.div", restore(c, c.grad(), dims), real_number(count_of(c.in("input").shape(), dims)));
  c.put("input", to_input_dtype(c, g));
}

// The reverse of broadcasting.
Arg sum_to_size_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  Dims size;
  for (const Arg& d : a["size"].items()) size.push_back(as_dim(d));
  int64_t extra = x.rank() - static_cast<int64_t>(size.size());
  std::vector<int64_t> dims;
  bool fits = extra >= 0;
  for (int64_t d = 0; fits && d < x.rank(); ++d) {
    if (d < extra) {
      dims.push_back(d);
    } else if (x.shape[d] != size[d - extra]) {
      fits = size[d - extra] == 1;
      dims.push_back(d);
    }
  }
  THUNDER_CHECK(fits, Runtime, "sum_to_size", "size {", str(size), "} is not expandable to size {", str(x.shape), "}.");
  if (dims.empty() && !size.empty()) return a["input"];
  Arg sum = reduce_in(b, "prims.sum", a["input"], dims, is_inexact(x.dtype) ? x.dtype : DType::i64);
  return same(sum.value().shape(), size) ? sum : b("torch.reshape", sum, size);
}

void sum_to_size_vjp(VjpContext& c) { c.put("input", c.b("torch.expand", c.grad(), c.in("input").shape())); }

Arg nansum_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  Expr clean = is_floating(x.dtype()) ? b("torch.where", b("torch.isnan", x), 0.0, x) : x;
  return b("torch.sum", clean, a["dim"], a["keepdim"], kw("dtype", a["dtype"]));
}

// Not a number has no part in the sum: its gradient is the sum's times 0.
void nansum_vjp(VjpContext& c) {
  Expr g = restore(c, c.grad(), dims_of(c.args()));
  Expr x = c.in("input");
  c.put("input", to_input_dtype(c, is_floating(x.dtype()) ? g * c.b("torch.logical_not", c.b("torch.isnan", x)) : g));
}

Arg nanmean_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  THUNDER_CHECK_DTYPE(is_inexact(x.dtype()), "nanmean",
                      "expected input to have floating point or complex dtype but got ", scalar_type_name(x.dtype()));
  Expr count = b("torch.sum", b("torch.logical_not", b("torch.isnan", x)), a["dim"], a["keepdim"]);
  return b("torch.div", b("torch.nansum", x, a["dim"], a["keepdim"], kw("dtype", a["dtype"])), count);
}

Arg count_nonzero_body(Builder& b, const Args& a) {
  return b("torch.sum", b("torch.ne", a["input"], 0), a["dim"], false, kw("dtype", DType::i64));
}

// ---- extrema --------------------------------------------------------------------------------------------------------

// Over all dimensions the extremum of nothing is another error than along one.
std::vector<int64_t> extremum_dims(const Args& a) {
  bool all = a["dim"].items().empty();
  THUNDER_CHECK(!all || a.tensor("input").numel() != 0, Runtime, a.op().schema.name,
                "Expected reduction dim to be specified for "
                "input.numel() == 0. Specify the reduction dim with the 'dim' argument.");
  return dims_of(a);
}

Arg amax_body(Builder& b, const Args& a) {
  std::vector<int64_t> dims = extremum_dims(a);
  return maybe_keep(b, a, b("prims.amax", a["input"], dims), dims);
}

Arg amin_body(Builder& b, const Args& a) {
  std::vector<int64_t> dims = extremum_dims(a);
  return maybe_keep(b, a, b("prims.amin", a["input"], dims), dims);
}

Arg aminmax_all(Builder& b, const Args& a, std::string_view prim) {
  const TensorType& x = a.tensor("input");
  THUNDER_CHECK(x.numel() != 0, Runtime, a.op().schema.name,
                "Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
                "'dim' argument.");
  return b(prim, a["input"], canonical_dims(a.op().schema.name, nullptr, x.rank()));
}

Arg max_body(Builder& b, const Args& a) { return aminmax_all(b, a, "prims.amax"); }
Arg min_body(Builder& b, const Args& a) { return aminmax_all(b, a, "prims.amin"); }

Arg aminmax_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  THUNDER_CHECK(a.has("dim") || x.numel() != 0, Runtime, "aminmax",
                "cannot compute aminmax over an empty dimension as the operation has "
                "no identity.");
  Arg dims = a.has("dim") ? Arg(std::vector<int64_t>{canonical_dim("aminmax", a.integer("dim"), x.rank())})
                          : Arg(std::vector<int64_t>{});
  return Arg::tuple({b("torch.amin", a["input"], dims, a["keepdim"]), b("torch.amax", a["input"], dims, a["keepdim"])});
}

void amax_vjp(VjpContext& c) {
  std::vector<int64_t> dims = dims_of(c.args());
  Expr mask = c.b("torch.eq", c.in("input"), restore(c, c.out(), dims));
  Expr count = c.b("torch.sum", mask, dims, true);
  Expr share = c.b("torch.div", c.b("torch.mul", restore(c, c.grad(), dims), mask), count);
  c.put("input", to_input_dtype(c, share));
}

// Unlike amax(), PyTorch shares the gradient of an extremum that is not a number among the elements that are none.
void extremum_vjp(VjpContext& c) {
  std::vector<int64_t> dims = canonical_dims("max", nullptr, c.in("input").rank());
  Expr x = c.in("input"), out = restore(c, c.out(), dims);
  Expr mask = c.b("torch.eq", x, out);
  if (is_floating(x.dtype()))
    mask = c.b("torch.logical_or", mask, c.b("torch.logical_and", c.b("torch.isnan", x), c.b("torch.isnan", out)));
  Expr share = c.grad() / c.b("torch.sum", mask, dims);
  c.put("input", to_input_dtype(c, c.b("torch.where", mask, restore(c, share, dims), 0.0)));
}

Arg with_indices(Builder& b, const Args& a, std::string_view extremum) {
  const Expr x = b.expr(a["input"]);
  const int64_t dim = canonical_dim(a.op().schema.name, a.integer("dim"), x.rank());
  const std::vector<int64_t> dims{dim};
  const Expr values = b(extremum, x, dims), indices = first_place(x, values, dim);
  return Arg::tuple({maybe_keep(b, a, values, dims), maybe_keep(b, a, indices, dims)});
}

Arg max_dim_body(Builder& b, const Args& a) { return with_indices(b, a, "prims.amax"); }
Arg min_dim_body(Builder& b, const Args& a) { return with_indices(b, a, "prims.amin"); }

// The gradient of the one element that was chosen, equal ones or not.
void with_indices_vjp(VjpContext& c) {
  const Expr x = c.in("input");
  if (x.rank() == 0) return c.put("input", c.grad(0));
  const int64_t dim = canonical_dim("max", c.args().integer("dim"), x.rank());
  Expr places = c.b("prims.iota", x.shape()[static_cast<size_t>(dim)], 0, 1, kw("dtype", DType::i64),
                    kw("device", x.tensor().device));
  places = c.b("prims.broadcast_in_dim", places, x.shape(), Arg(std::vector<int64_t>{dim}));
  const Expr chosen = c.b("torch.eq", places, restore(c, c.out(1), {dim}));
  c.put("input", c.b("torch.where", chosen, restore(c, c.grad(0), {dim}), 0.0));
}

Arg max_other_body(Builder& b, const Args& a) { return b("torch.maximum", a["input"], a["other"]); }
Arg min_other_body(Builder& b, const Args& a) { return b("torch.minimum", a["input"], a["other"]); }

Arg arg_extremum(Builder& b, const Args& a, std::string_view prim) {
  const TensorType& x = a.tensor("input");
  if (a["dim"].is_none()) {
    Arg index = b(prim, a["input"], nullptr);
    return a.flag("keepdim") ? keep_dims(b, index, canonical_dims("argmax", nullptr, x.rank())) : index;
  }
  int64_t dim = canonical_dim(a.op().schema.name, a.integer("dim"), x.rank());
  return maybe_keep(b, a, b(prim, a["input"], dim), {dim});
}

Arg argmax_body(Builder& b, const Args& a) { return arg_extremum(b, a, "prims.argmax"); }
Arg argmin_body(Builder& b, const Args& a) { return arg_extremum(b, a, "prims.argmin"); }

Arg truth(Builder& b, const Args& a, std::string_view prim) {
  std::vector<int64_t> dims =
      a.op().schema.index_of("dim") >= 0 ? dims_of(a) : canonical_dims("any", nullptr, a.tensor("input").rank());
  Arg r = maybe_keep(b, a, b(prim, a["input"], dims), dims);
  return a.tensor("input").dtype == DType::u8 ? convert(b, r, DType::u8) : r;
}

Arg any_body(Builder& b, const Args& a) { return truth(b, a, "prims.any"); }
Arg all_body(Builder& b, const Args& a) { return truth(b, a, "prims.all"); }

Arg truth_of_bools(Builder& b, const Args& a, std::string_view op) {
  THUNDER_CHECK(a.tensor("input").dtype == DType::boolean, Runtime, a.op().schema.name, "takes a tensor of bools, got ",
                scalar_type_name(a.tensor("input").dtype));
  return b(op, a["input"]).arg();
}

Arg is_all_true_body(Builder& b, const Args& a) { return truth_of_bools(b, a, "torch.all"); }
Arg is_any_true_body(Builder& b, const Args& a) { return truth_of_bools(b, a, "torch.any"); }

// ---- variance, norms ------------------------------------------------------------------------------------------------

double correction_of(const Args& a) {
  if (a.op().schema.index_of("unbiased") >= 0) return a.flag("unbiased") ? 1 : 0;
  return a.has("correction") ? a.real("correction") : 1.0;
}

Expr variance(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  THUNDER_CHECK_DTYPE(is_inexact(x.dtype), a.op().schema.name,
                      "std and var only support floating point and complex dtypes");
  std::vector<int64_t> dims = dims_of(a);
  Arg in = convert(b, a["input"], compute_type(x.dtype));
  Arg v = b("prims.var", in, dims, kw("correction", correction_of(a)));
  return b.expr(maybe_keep(b, a, v, dims));
}

Arg var_body(Builder& b, const Args& a) { return convert(b, variance(b, a), real_part_type(a.tensor("input").dtype)); }
Arg std_body(Builder& b, const Args& a) {
  return convert(b, b("prims.sqrt", variance(b, a)), real_part_type(a.tensor("input").dtype));
}

Arg var_mean_body(Builder& b, const Args& a) {
  return Arg::tuple(
      {b("torch.var", a["input"], a["dim"], kw("correction", correction_of(a)), kw("keepdim", a["keepdim"])),
       b("torch.mean", a["input"], a["dim"], a["keepdim"])});
}

Arg std_mean_body(Builder& b, const Args& a) {
  return Arg::tuple(
      {b("torch.std", a["input"], a["dim"], kw("correction", correction_of(a)), kw("keepdim", a["keepdim"])),
       b("torch.mean", a["input"], a["dim"], a["keepdim"])});
}

// d var = 2 (x - mean) / (n - correction)
Expr var_gradient(VjpContext& c, const Expr& g) {
  Expr x = c.in("input");
  std::vector<int64_t> dims = dims_of(c.args());
  Expr centred = x - c.b("torch.mean", x, dims, true);
  Expr slope = variance_slope(centred, count_of(x.shape(), dims), correction_of(c.args()));
  return c.b("torch.mul", restore(c, g, dims), slope);
}

void var_vjp(VjpContext& c) { c.put("input", to_input_dtype(c, var_gradient(c, c.grad()))); }

void std_vjp(VjpContext& c) {
  Expr half = c.b("torch.div", c.grad(), c.b("torch.mul", c.out(), 2.0));
  Expr g = c.b("torch.masked_fill", half, c.b("torch.eq", c.out(), 0.0), 0.0);
  c.put("input", to_input_dtype(c, var_gradient(c, g)));
}

Arg logsumexp_body(Builder& b, const Args& a) {
  std::vector<int64_t> dims = dims_of(a);
  Expr x = b.expr(a["input"]);
  if (!is_inexact(x.dtype())) x = b("torch.to", x, default_dtype());
  Expr top = b("torch.amax", is_complex(x.dtype()) ? b("torch.real", x) : x, dims, true);
  Expr finite = b("torch.where", b("torch.isinf", top), 0.0, top);
  Expr sum = b("torch.sum", b("torch.exp", x - finite), dims, true);
  Expr r = b("torch.log", sum) + finite;
  return a.flag("keepdim") ? r : b("torch.squeeze", r, dims);
}

void logsumexp_vjp(VjpContext& c) {
  std::vector<int64_t> dims = dims_of(c.args());
  Expr weights = c.b("torch.exp", c.in("input") - restore(c, c.out(), dims));
  c.put("input", c.b("torch.mul", restore(c, c.grad(), dims), conj(weights)));
}

Arg vector_norm_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  if (given(a, "dtype")) x = b("torch.to", x, a["dtype"]);
  THUNDER_CHECK(is_inexact(x.dtype()), Runtime, a.op().schema.name,
                "linalg.vector_norm: Expected a floating point or complex tensor as input. Got ",
                torch_name(x.dtype()));
  double p = a.has("ord") ? a.real("ord") : 2.0;
  Arg dims = a["dim"], keep = a["keepdim"];
  Expr magnitude = b("torch.abs", x);
  if (std::isinf(p))
    return p > 0 ? b("torch.amax", magnitude, dims_of(a), keep) : b("torch.amin", magnitude, dims_of(a), keep);
  // Counted through the magnitude, so that the result is a constant function of x rather than none: its gradient is
  // zero.
  if (p == 0) return b("torch.sum", b("torch.where", b("torch.ne", x, 0.0), 1.0, magnitude), dims, keep);
  if (p == 1) return b("torch.sum", magnitude, dims, keep);
  if (p == 2) return b("torch.sqrt", b("torch.sum", b("torch.mul", magnitude, magnitude), dims, keep));
  return b("torch.pow", b("torch.sum", b("torch.pow", magnitude, p), dims, keep), 1.0 / p);
}

// x |x|^(p-2) g / norm^(p-1), with 0 where the norm is 0.
void vector_norm_vjp(VjpContext& c) {
  Expr x = c.in("input");
  std::vector<int64_t> dims = dims_of(c.args());
  double p = c.args().has("ord") ? c.args().real("ord") : 2.0;
  Expr g = restore(c, c.grad(), dims), norm = restore(c, to_dtype(c.out(), x.dtype()), dims);
  auto zero_where_zero = [&](const Expr& e) { return c.b("torch.masked_fill", e, c.b("torch.eq", norm, 0.0), 0.0); };
  if (p == 0) return c.put("input", c.b("torch.zeros_like", x));
  if (std::isinf(p)) {
    Expr magnitude = c.b("torch.abs", x);
    Expr mask = c.b("torch.logical_or", c.b("torch.eq", magnitude, norm), c.b("torch.isnan", magnitude));
    Expr count = c.b("torch.sum", mask, dims, true);
    return c.put("input", to_input_dtype(c, c.b("torch.mul", c.b("torch.sgn", x), c.b("torch.mul", mask, g / count))));
  }
  if (p == 1) return c.put("input", to_input_dtype(c, c.b("torch.sgn", x) * g));
  if (p == 2) return c.put("input", to_input_dtype(c, x * zero_where_zero(g / norm)));
  Expr scaled = p < 1 ? g * c.b("torch.pow", norm, 1 - p) : zero_where_zero(g / c.b("torch.pow", norm, p - 1));
  if (p > 2) return c.put("input", to_input_dtype(c, x * c.b("torch.pow", c.b("torch.abs", x), p - 2) * scaled));
  Expr power = c.b("torch.pow", c.b("torch.abs", x), p - 1);
  if (p < 1) power = c.b("torch.masked_fill", power, c.b("torch.eq", x, 0.0), 0.0);
  c.put("input", to_input_dtype(c, c.b("torch.sgn", x) * power * scaled));
}

Arg norm_body(Builder& b, const Args& a) {
  Arg p = a["p"];
  if (p.kind() == Arg::Kind::Str && p.str() == "nuc") {
    Arg dims = a.has("dim") ? a["dim"] : Arg(std::vector<int64_t>{0, 1});
    return b("torch.linalg_matrix_norm", a["input"], p, dims, a["keepdim"], kw("dtype", a["dtype"]));
  }
  if (p.kind() == Arg::Kind::Str) {
    THUNDER_CHECK(p.str() == "fro", Runtime, "norm", "expected p to be 'fro', 'nuc' or a number, got '", p.str(), "'");
    p = 2.0;
  }
  return b("torch.vector_norm", a["input"], p, a["dim"], a["keepdim"], kw("dtype", a["dtype"]));
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
     .doc = "The sum over `dim` (all for None). Integers and booleans sum in int64 unless `dtype` says otherwise.",
     .tags = kReduction, .body = sum_body, .vjp = sum_vjp, .aten = "sum.dim_IntList",
     .python = "torch.sum torch.Tensor.sum"},
    {.schema = "sum_to_size(Tensor input, int[] ...size) -> Tensor",
     .doc = "The input summed over the dimensions along which a tensor of `size` would be broadcast to its shape.",
     .tags = kReduction | kLinear | kReturnsInput, .body = sum_to_size_body, .vjp = sum_to_size_vjp,
     .python = "torch.Tensor.sum_to_size"},
    {.schema = "nansum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
     .doc = "The sum over `dim`, not-a-numbers counting as 0.", .tags = kReduction, .body = nansum_body,
     .vjp = nansum_vjp, .aten = "nansum", .python = "torch.nansum torch.Tensor.nansum"},
    {.schema = "nanmean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
     .doc = "The mean over `dim` of what is a number.", .tags = kReduction, .body = nanmean_body, .aten = "nanmean",
     .python = "torch.nanmean torch.Tensor.nanmean"},
    {.schema = "mean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
     .doc = "The sum over `dim` (all for None) divided by the number of elements summed.",
     .tags = kReduction, .body = mean_body, .vjp = mean_vjp, .aten = "mean.dim",
     .python = "torch.mean torch.Tensor.mean"},
    {.schema = "prod(Tensor input, *, dtype? dtype=None) -> Tensor", .doc = "The product of all elements.",
     .tags = kReduction, .body = prod_all_body, .aten = "prod", .python = "torch.prod torch.Tensor.prod"},
    {.schema = "prod.dim_int(Tensor input, int dim, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
     .doc = "The product along `dim`.", .tags = kReduction, .body = prod_body, .aten = "prod.dim_int",
     .python = "torch.prod torch.Tensor.prod"},
    {.schema = "amax(Tensor input, int[] dim=[], bool keepdim=False) -> Tensor",
     .doc = "The largest element over `dim`; equal ones share the gradient.", .tags = kReduction, .body = amax_body,
     .vjp = amax_vjp, .aten = "amax", .python = "torch.amax torch.Tensor.amax"},
    {.schema = "amin(Tensor input, int[] dim=[], bool keepdim=False) -> Tensor",
     .doc = "The smallest element over `dim`; equal ones share the gradient.", .tags = kReduction, .body = amin_body,
     .vjp = amax_vjp, .aten = "amin", .python = "torch.amin torch.Tensor.amin"},
    {.schema = "max(Tensor input) -> Tensor", .doc = "The largest element.", .tags = kReduction, .body = max_body,
     .vjp = extremum_vjp, .aten = "max", .python = "torch.max torch.Tensor.max"},
    {.schema = "max.other(Tensor input, Tensor other) -> Tensor", .doc = "The larger of two elements each.",
     .tags = kPointwise, .body = max_other_body, .python = "torch.max torch.Tensor.max"},
    {.schema = "max.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor, Tensor)",
     .doc = "The largest elements along `dim`, and their indices (int64).", .tags = kReduction, .body = max_dim_body,
     .vjp = with_indices_vjp, .aten = "max.dim", .python = "torch.max torch.Tensor.max"},
    {.schema = "min(Tensor input) -> Tensor", .doc = "The smallest element.", .tags = kReduction, .body = min_body,
     .vjp = extremum_vjp, .aten = "min", .python = "torch.min torch.Tensor.min"},
    {.schema = "min.other(Tensor input, Tensor other) -> Tensor", .doc = "The smaller of two elements each.",
     .tags = kPointwise, .body = min_other_body, .python = "torch.min torch.Tensor.min"},
    {.schema = "min.dim(Tensor input, int dim, bool keepdim=False) -> (Tensor, Tensor)",
     .doc = "The smallest elements along `dim`, and their indices (int64).", .tags = kReduction, .body = min_dim_body,
     .vjp = with_indices_vjp, .aten = "min.dim", .python = "torch.min torch.Tensor.min"},
    {.schema = "aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor, Tensor)",
     .doc = "The smallest and the largest element, along `dim` or of all.", .tags = kReduction, .body = aminmax_body,
     .aten = "aminmax", .python = "torch.aminmax torch.Tensor.aminmax"},
    {.schema = "argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor",
     .doc = "The index (int64) of the largest element along `dim`; of the flattened tensor for None.",
     .tags = kReduction | kNoGrad, .body = argmax_body, .aten = "argmax", .python = "torch.argmax torch.Tensor.argmax"},
    {.schema = "argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor",
     .doc = "The index (int64) of the smallest element along `dim`; of the flattened tensor for None.",
     .tags = kReduction | kNoGrad, .body = argmin_body, .aten = "argmin", .python = "torch.argmin torch.Tensor.argmin"},
    {.schema = "any(Tensor input) -> Tensor", .doc = "Whether any element is not zero.", .tags = kReduction | kNoGrad,
     .body = any_body, .aten = "any", .python = "torch.any torch.Tensor.any"},
    {.schema = "any.dims(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
     .doc = "Whether any element over `dim` is not zero.", .tags = kReduction | kNoGrad, .body = any_body,
     .aten = "any.dims", .python = "torch.any torch.Tensor.any"},
    {.schema = "all(Tensor input) -> Tensor", .doc = "Whether all elements are not zero.", .tags = kReduction | kNoGrad,
     .body = all_body, .aten = "all", .python = "torch.all torch.Tensor.all"},
    {.schema = "all.dims(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor",
     .doc = "Whether all elements over `dim` are not zero.", .tags = kReduction | kNoGrad, .body = all_body,
     .aten = "all.dims", .python = "torch.all torch.Tensor.all"},
    {.schema = "_is_all_true(Tensor input) -> Tensor", .doc = "Whether all of these bools are true.",
     .tags = kReduction | kNoGrad, .body = is_all_true_body, .python = "torch._is_all_true torch.Tensor._is_all_true"},
    {.schema = "_is_any_true(Tensor input) -> Tensor", .doc = "Whether any of these bools is true.",
     .tags = kReduction | kNoGrad, .body = is_any_true_body, .python = "torch._is_any_true torch.Tensor._is_any_true"},
    {.schema = "count_nonzero(Tensor input, int[]? dim=None) -> Tensor",
     .doc = "How many elements over `dim` are not zero.", .tags = kReduction | kNoGrad, .body = count_nonzero_body,
     .python = "torch.count_nonzero torch.Tensor.count_nonzero"},
    {.schema = "var(Tensor input, int[]? dim=None, *, Number? correction=1, bool keepdim=False) -> Tensor",
     .doc = "The variance over `dim`, divided by count - correction.", .tags = kReduction, .body = var_body,
     .vjp = var_vjp, .aten = "var.correction", .python = "torch.var torch.Tensor.var"},
    {.schema = "var.dim(Tensor input, int[]? dim=None, bool unbiased=True, bool keepdim=False) -> Tensor",
     .doc = "The variance over `dim`, divided by count - 1 (unbiased) or count.", .tags = kReduction, .body = var_body,
     .vjp = var_vjp, .aten = "var.dim", .python = "torch.var torch.Tensor.var"},
    {.schema = "std(Tensor input, int[]? dim=None, *, Number? correction=1, bool keepdim=False) -> Tensor",
     .doc = "The square root of the variance over `dim`.", .tags = kReduction, .body = std_body, .vjp = std_vjp,
     .aten = "std.correction", .python = "torch.std torch.Tensor.std"},
    {.schema = "std.dim(Tensor input, int[]? dim=None, bool unbiased=True, bool keepdim=False) -> Tensor",
     .doc = "The square root of the variance over `dim`.", .tags = kReduction, .body = std_body, .vjp = std_vjp,
     .aten = "std.dim", .python = "torch.std torch.Tensor.std"},
    {.schema = "var_mean(Tensor input, int[]? dim=None, *, Number? correction=1, bool keepdim=False) "
               "-> (Tensor, Tensor)",
     .doc = "The variance and the mean over `dim`.", .tags = kReduction | kWhole, .body = var_mean_body,
     .aten = "var_mean.correction", .python = "torch.var_mean"},
    {.schema = "std_mean(Tensor input, int[]? dim=None, *, Number? correction=1, bool keepdim=False) "
               "-> (Tensor, Tensor)",
     .doc = "The standard deviation and the mean over `dim`.", .tags = kReduction | kWhole, .body = std_mean_body,
     .aten = "std_mean.correction", .python = "torch.std_mean"},
    {.schema = "var_mean.dim(Tensor input, int[]? dim=None, bool unbiased=True, bool keepdim=False) "
               "-> (Tensor, Tensor)",
     .doc = "The variance, divided by count - 1 (unbiased) or count, and the mean over `dim`.", .tags = kReduction | kWhole,
     .body = var_mean_body, .aten = "var_mean.dim", .python = "torch.var_mean"},
    {.schema = "std_mean.dim(Tensor input, int[]? dim=None, bool unbiased=True, bool keepdim=False) "
               "-> (Tensor, Tensor)",
     .doc = "The square root of that variance, and the mean over `dim`.", .tags = kReduction | kWhole,
     .body = std_mean_body, .aten = "std_mean.dim", .python = "torch.std_mean"},
    {.schema = "var.unbiased(Tensor input, bool unbiased, int[]? dim=None, bool keepdim=False) -> Tensor",
     .doc = "As var, with the divisor chosen first.", .tags = kReduction, .body = var_body, .vjp = var_vjp,
     .aten = "var.dim(input, dim, unbiased, keepdim)", .python = "torch.var torch.Tensor.var"},
    {.schema = "std.unbiased(Tensor input, bool unbiased, int[]? dim=None, bool keepdim=False) -> Tensor",
     .doc = "As std, with the divisor chosen first.", .tags = kReduction, .body = std_body, .vjp = std_vjp,
     .aten = "std.dim(input, dim, unbiased, keepdim)", .python = "torch.std torch.Tensor.std"},
    {.schema = "var_mean.unbiased(Tensor input, bool unbiased, int[]? dim=None, bool keepdim=False) "
               "-> (Tensor, Tensor)",
     .doc = "As var_mean, with the divisor chosen first.", .tags = kReduction | kWhole, .body = var_mean_body,
     .aten = "var_mean.dim(input, dim, unbiased, keepdim)", .python = "torch.var_mean"},
    {.schema = "std_mean.unbiased(Tensor input, bool unbiased, int[]? dim=None, bool keepdim=False) "
               "-> (Tensor, Tensor)",
     .doc = "As std_mean, with the divisor chosen first.", .tags = kReduction | kWhole, .body = std_mean_body,
     .aten = "std_mean.dim(input, dim, unbiased, keepdim)", .python = "torch.std_mean"},
    {.schema = "logsumexp(Tensor input, int[] dim, bool keepdim=False) -> Tensor",
     .doc = "log(sum(exp(input))) over `dim`, with the largest element taken out before exp.", .tags = kReduction,
     .body = logsumexp_body, .vjp = logsumexp_vjp, .aten = "logsumexp",
     .python = "torch.logsumexp torch.Tensor.logsumexp"},
    {.schema = "vector_norm(Tensor input, Number ord=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) "
               "-> Tensor",
     .doc = "(sum |x|^ord)^(1/ord) over `dim`; ord may be 0 and +-inf.", .tags = kReduction, .body = vector_norm_body,
     .vjp = vector_norm_vjp, .aten = "linalg_vector_norm", .python = "torch.linalg.vector_norm"},
    {.schema = "norm(Tensor input, any p='fro', int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor",
     .doc = "The p-norm of the elements over `dim`; 'fro' is 2, 'nuc' the sum of a matrix's singular values.",
     .tags = kReduction, .body = norm_body, .python = "torch.norm torch.Tensor.norm torch.functional.norm"},
};
// clang-format on

}  // namespace

Records reduction() { return kRecords; }

}  // namespace thunder::ops::torch
