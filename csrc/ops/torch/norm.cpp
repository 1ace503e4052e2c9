// torch: layer norm and RMS norm, and normalising by a p-norm.  Norms over channels are in channel_norm.cpp.
#include <algorithm>
#include <limits>

#include "core/dtype_error.h"
#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

// ---- layer norm -----------------------------------------------------------------------------------------------------

std::string shape_text(const Dims& shape) { return "[" + join(shape) + "]"; }

// Checks the arguments and gives the number of leading dimensions that are not normalised.
int64_t check_normalized_shape(std::string_view op, const Args& a, const char* star) {
  const TensorType& x = a.tensor("input");
  Dims shape = a.dims("normalized_shape");
  THUNDER_CHECK(!shape.empty(), Runtime, op,
                "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least "
                "one element, but got normalized_shape = []");
  for (const char* name : {"weight", "bias"}) {
    if (a.op().schema.index_of(name) < 0 || !a.has(name)) continue;
    THUNDER_CHECK(equal(a.tensor(name).shape, shape), Runtime, op, "Expected ", name,
                  " to be of same shape as normalized_shape, but got ", name, " of shape ",
                  shape_text(a.tensor(name).shape), " and normalized_shape = ", shape_text(shape));
  }
  int64_t leading = x.rank() - static_cast<int64_t>(shape.size());
  if (op == "rms_norm")
    THUNDER_CHECK(leading >= 0, Value, op, "Input tensor must have at least ", shape.size(), " dimensions, but got ",
                  x.rank());
  THUNDER_CHECK(leading >= 0 && equal(Dims(x.shape.begin() + leading, x.shape.end()), shape), Runtime, op,
                "Given normalized_shape=", shape_text(shape), ", expected input with shape [*", star, join(shape),
                "], but got input of size", shape_text(x.shape));
  return leading;
}

// The dtype of mean and rstd: on the CPU that of the parameters, on CUDA the one that sums are accumulated in.
DType statistics_type(const Args& a) {
  const TensorType& x = a.tensor("input");
  if (x.device.type != DeviceType::cpu) return compute_type(x.dtype);
  DType t = x.dtype;
  for (const char* name : {"weight", "bias"}) {
    if (!a.has(name) || a.tensor(name).dtype == x.dtype) continue;
    t = DType::f32;
    THUNDER_CHECK_DTYPE(compute_type(x.dtype) != x.dtype && a.tensor(name).dtype == t, "layer_norm",
                        "mixed dtype (CPU): expect parameter to have scalar type of Float");
  }
  return t;
}

Arg layer_norm_body(Builder& b, const Args& a) {
  return b("torch.native_layer_norm", a["input"], a["normalized_shape"], a["weight"], a["bias"], a["eps"])[0].arg();
}

Arg native_layer_norm_body(Builder& b, const Args& a) {
  int64_t leading = check_normalized_shape("layer_norm", a, ", ");
  const TensorType t = a.tensor("input");
  DType stats = statistics_type(a);
  check_floating("layer_norm", "LayerNormKernelImpl", a["input"]);
  std::vector<int64_t> dims = range(leading, t.rank());
  Formula x = compute(b, contiguous(b, a["input"]));
  Dim count = product(Dims(t.shape.begin() + leading, t.shape.end()));
  Formula mean = sum(x, dims).call("prims.div", Arg(count));
  Formula centred = x - spread(mean, t.shape, dims);
  Formula var = sum(centred * centred, dims).call("prims.div", Arg(count));
  Formula rstd = rsqrt(var.call("prims.add", a["eps"]));
  Formula y = centred * spread(rstd, t.shape, dims);
  if (a.has("weight")) y = y * spread_leading(as(Formula(b, a["weight"]), y.dtype()), t.shape);
  if (a.has("bias")) y = y + spread_leading(as(Formula(b, a["bias"]), y.dtype()), t.shape);
  // The statistics are for the gradient; none flows through them.
  auto statistic = [&](const Formula& f) { return b("prims.detach", keep_dims(b, store(f, stats), dims)).arg(); };
  return Arg::tuple({store(y, t.dtype), statistic(mean), statistic(rstd)});
}

void native_layer_norm_vjp(VjpContext& c) {
  if (!c.has_grad(0)) return;
  const Args a = c.args();
  ArgList mask = {c.needs("input"), c.needs("weight"), c.needs("bias")};
  Expr r = c.b("torch.native_layer_norm_backward", c.grad(0), c.in("input"), a["normalized_shape"], c.out(1), c.out(2),
               a["weight"], a["bias"], Arg::list(std::move(mask)));
  c.put("input", r[0]);
  if (c.needs("weight")) c.put("weight", r[1]);
  if (c.needs("bias")) c.put("bias", r[2]);
}

bool wanted(const Args& a, size_t i) { return a["output_mask"].items()[i].boolean(); }

Arg native_layer_norm_backward_body(Builder& b, const Args& a) {
  const TensorType t = a.tensor("input");
  int64_t leading = t.rank() - static_cast<int64_t>(a.dims("normalized_shape").size());
  std::vector<int64_t> dims = range(leading, t.rank()), rows = range(0, leading);
  Formula g = compute(b, contiguous(b, a["grad_out"])), x = compute(b, contiguous(b, a["input"]));
  auto wide = [&](const char* name) { return Formula(b, expand_to(b, as(Formula(b, a[name]), x.dtype()), t.shape)); };
  Formula rstd = wide("rstd"), normal = (x - wide("mean")) * rstd;
  ArgList out(3);
  if (wanted(a, 0)) {
    Dim count = product(Dims(t.shape.begin() + leading, t.shape.end()));
    Formula gw = a.has("weight") ? g * spread_leading(as(Formula(b, a["weight"]), g.dtype()), t.shape) : g;
    auto mean = [&](const Formula& f) { return spread(sum(f, dims).call("prims.div", Arg(count)), t.shape, dims); };
    out[0] = store((gw - mean(gw) - normal * mean(gw * normal)) * rstd, t.dtype);
  }
  if (wanted(a, 1)) out[1] = store(sum(g * normal, rows), a.tensor("weight").dtype);
  if (wanted(a, 2)) out[2] = store(sum(g, rows), a.tensor("bias").dtype);
  return Arg::tuple(std::move(out));
}

// ---- RMS norm -------------------------------------------------------------------------------------------------------

Arg rms_norm_body(Builder& b, const Args& a) {
  int64_t leading = check_normalized_shape("rms_norm", a, "");
  Expr input = b.expr(a["input"]);
  DType t = input.dtype(), c = compute_type(t);
  THUNDER_CHECK(is_inexact(t), NotImplemented, "rms_norm", "\"rms_norm\" not implemented for '", scalar_type_name(t),
                "'");
  double eps = a.has("eps")                      ? a.real("eps")
               : real_part_type(c) == DType::f32 ? std::numeric_limits<float>::epsilon()
                                                 : std::numeric_limits<double>::epsilon();
  Expr x = to_dtype(input, c);
  Expr square = b("torch.mean", b("torch.pow", x, 2), Arg(range(leading, input.rank())), true);
  Expr y = x * b("torch.rsqrt", b("torch.add", square, eps));
  if (a.has("weight")) y = b("torch.mul", y, a["weight"]);
  return to_dtype(b.expr(contiguous(b, y)), t).arg();
}

// ---- p-norm ---------------------------------------------------------------------------------------------------------

Arg normalize_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  Expr length = b("torch.norm", x, a["p"], a["dim"], true);
  return (x / b("torch.clamp_min", length, a["eps"])).arg();
}

Arg weight_norm_body(Builder& b, const Args& a) {
  const Expr v = b.expr(a["v"]), g = b.expr(a["g"]);
  const DType t = result_type({v, g}), c = compute_type(t);
  THUNDER_CHECK(is_floating(t), Runtime, "_weight_norm", "expected floating point tensors, but got ",
                scalar_type_name(t));
  // The length of the whole tensor is a number: -1 is not the last dimension.
  const bool all = a.integer("dim") == -1;
  THUNDER_CHECK(all || v.rank() > 0, Index, "_weight_norm", "dimension ", a.integer("dim"),
                " of a tensor that has none");
  std::vector<int64_t> dims = range(0, v.rank());
  if (!all) dims.erase(dims.begin() + canonical_dim("_weight_norm", a.integer("dim"), v.rank()));
  const Expr x = to_dtype(v, c);
  Expr length = x;
  if (dims.empty()) length = b("torch.abs", x);
  else length = b("torch.sqrt", b("torch.sum", x * x, Arg(dims), !all));
  return to_dtype(x * (to_dtype(g, c) / length), t).arg();
}

Arg cosine_similarity_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["x1"]), y = b.expr(a["x2"]);
  DType t = result_type({x, y});
  THUNDER_CHECK_DTYPE(is_floating(t), "cosine_similarity",
                      "expected common dtype to be floating point, yet common dtype is ", scalar_type_name(t));
  Dims shape = broadcast_shape_of("cosine_similarity", {x, y});
  int64_t dim = canonical_dim("cosine_similarity", a.integer("dim"), static_cast<int64_t>(shape.size()));
  auto unit = [&](const Expr& v) {
    Expr wide = b("torch.expand", to_dtype(v, t), shape);
    Expr length = b("torch.vector_norm", wide, 2, std::vector<int64_t>{dim}, true);
    // Eager clamps the length under no_grad: what is cut off has the gradient of the length.
    Expr clamped = length - b("torch.detach", length) + a.real("eps");
    return wide / b("torch.where", b("torch.lt", length, a["eps"]), clamped, length);
  };
  return b("torch.sum", unit(x) * unit(y), dim).arg();
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "layer_norm(Tensor input, int[:] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
               "float eps=1e-05) -> Tensor",
     .doc = "Centres and scales the last dimensions to mean 0 and variance 1, then applies weight and bias.",
     .body = layer_norm_body, .aten = "layer_norm", .python = "torch.nn.functional.layer_norm"},
    {.schema = "layer_norm.torch(Tensor input, int[:] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
               "float eps=1e-05, bool cudnn_enable=True) -> Tensor",
     .doc = "Centres and scales the last dimensions to mean 0 and variance 1, then applies weight and bias.",
     .body = layer_norm_body, .aten = "layer_norm", .python = "torch.layer_norm"},
    {.schema = "native_layer_norm(Tensor input, int[:] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
               "-> (Tensor, Tensor, Tensor)",
     .doc = "Layer norm with the mean and the reciprocal standard deviation that its gradient needs.",
     .body = native_layer_norm_body, .vjp = native_layer_norm_vjp, .aten = "native_layer_norm",
     .python = "torch.native_layer_norm"},
    {.schema = "native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, "
               "Tensor rstd, Tensor? weight, Tensor? bias, bool[] output_mask) -> (Tensor, Tensor, Tensor)",
     .doc = "Gradients of layer norm; None where output_mask is false.", .body = native_layer_norm_backward_body,
     .aten = "native_layer_norm_backward", .python = "torch.ops.aten.native_layer_norm_backward"},
    {.schema = "rms_norm(Tensor input, int[:] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
     .doc = "Scales the last dimensions to a root mean square of 1, then applies weight.", .body = rms_norm_body,
     .aten = "rms_norm", .python = "torch.nn.functional.rms_norm torch.rms_norm"},
    {.schema = "normalize(Tensor input, float p=2.0, int dim=1, float eps=1e-12) -> Tensor",
     .doc = "Scales to unit p-norm along dim.", .body = normalize_body, .python = "torch.nn.functional.normalize"},
    {.schema = "_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor",
     .doc = "v scaled to the lengths g, of the whole tensor for dim -1, of what lies at each place of dim otherwise.",
     .body = weight_norm_body, .aten = "_weight_norm", .python = "torch._weight_norm"},
    {.schema = "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
     .doc = "Cosine of the angle between vectors along dim.", .body = cosine_similarity_body,
     .aten = "cosine_similarity", .python = "torch.nn.functional.cosine_similarity torch.cosine_similarity"},
};
// clang-format on

}  // namespace

Records norm() { return kRecords; }

}  // namespace thunder::ops::torch
