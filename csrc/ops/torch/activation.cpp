// torch: activation functions that shrink or squash element by element.  The smooth ones (gelu, silu, elu, ...) are in
// smooth_activation.cpp, softmax and its kin in softmax.cpp.
//
// Each has ATen's backward kernel as a record of its own (torch.ops.aten.threshold_backward), so that the default
// executor runs the same kernels as eager; the bodies are for the passes that look inside.
#include <cmath>

#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

// A bound as the kernel sees it: an integer for integer tensors.
Arg bound(const Arg& number, DType t) {
  return is_inexact(t) || !number.is_literal_number() ? number : Arg(static_cast<int64_t>(number.real()));
}

Formula zeros_where(const Formula& condition, const Formula& x) { return where(condition, 0.0, x); }

// ---- relu and threshold ---------------------------------------------------------------------------------------------

Arg relu_body(Builder& b, const Args& a) {
  THUNDER_CHECK(!is_bool(a.tensor("input").dtype), Runtime, "relu", "Boolean inputs not supported for relu");
  THUNDER_CHECK(!is_complex(a.tensor("input").dtype), NotImplemented, "relu",
                "clamp is not supported for complex types");
  return maximum(Formula(b, a["input"]), 0);
}

void relu_vjp(VjpContext& c) { c.put("input", c.b("torch.threshold_backward", c.grad(), c.out(), 0)); }

Arg threshold_body(Builder& b, const Args& a) {
  Formula x(b, a["input"]);
  return where(x.call("prims.le", bound(a["threshold"], x.dtype())), bound(a["value"], x.dtype()), x);
}

void threshold_vjp(VjpContext& c) {
  c.put("input", c.b("torch.threshold_backward", c.grad(), c.in("input"), c.args()["threshold"]));
}

Arg threshold_backward_body(Builder& b, const Args& a) {
  Formula x(b, a["self"]), g(b, a["grad_output"]);
  return store_like(zeros_where(x.call("prims.le", bound(a["threshold"], x.dtype())), g), g.dtype(),
                    {a["self"], a["grad_output"]});
}

// ---- hardtanh and its kin -------------------------------------------------------------------------------------------

Arg clamped(const Formula& x, const Arg& low, const Arg& high) {
  return minimum(maximum(x, bound(low, x.dtype())), bound(high, x.dtype()));
}

Arg hardtanh_body(Builder& b, const Args& a) {
  THUNDER_CHECK(!is_bool(a.tensor("input").dtype), Runtime, "hardtanh", "Bool inputs not supported for hardtanh");
  bool literals = a["min_val"].is_real_literal() && a["max_val"].is_real_literal();
  THUNDER_CHECK(!literals || !(a.real("min_val") > a.real("max_val")), Value, "hardtanh",
                "min_val cannot be greater than max_val, got ", a.real("min_val"), " and ", a.real("max_val"));
  return clamped(Formula(b, a["input"]), a["min_val"], a["max_val"]);
}

void hardtanh_vjp(VjpContext& c) {
  c.put("input", c.b("torch.hardtanh_backward", c.grad(), c.in("input"), c.args()["min_val"], c.args()["max_val"]));
}

Arg relu6_body(Builder& b, const Args& a) {
  THUNDER_CHECK(!is_bool(a.tensor("input").dtype), Runtime, "relu6", "Bool inputs not supported for hardtanh");
  return clamped(Formula(b, a["input"]), 0, 6);
}

void relu6_vjp(VjpContext& c) { c.put("input", c.b("torch.hardtanh_backward", c.grad(), c.in("input"), 0, 6)); }

Arg hardtanh_backward_body(Builder& b, const Args& a) {
  Formula x(b, a["self"]), g(b, a["grad_output"]);
  Formula outside = x.call("prims.le", a["min_val"]) | x.call("prims.ge", a["max_val"]);
  return store_like(zeros_where(outside, g), g.dtype(), {a["grad_output"], a["self"]});
}

Arg hardsigmoid_body(Builder& b, const Args& a) {
  check_floating("hardsigmoid", "hardsigmoid_cpu", a["input"]);
  Formula x = compute(b, a["input"]);
  return store(minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0, a.tensor("input").dtype);
}

void hardsigmoid_vjp(VjpContext& c) { c.put("input", c.b("torch.hardsigmoid_backward", c.grad(), c.in("input"))); }

Arg hardsigmoid_backward_body(Builder& b, const Args& a) {
  Formula x = compute(b, a["self"]), g = compute(b, a["grad_output"]);
  return store_like(where((x > -3.0) & (x < 3.0), g / 6.0, 0.0), a.tensor("grad_output").dtype,
                    {a["grad_output"], a["self"]});
}

Arg hardswish_body(Builder& b, const Args& a) {
  check_floating("hardswish", "hardswish_cpu", a["input"]);
  Formula x = compute(b, a["input"]);
  return store(x * minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0, a.tensor("input").dtype);
}

void hardswish_vjp(VjpContext& c) { c.put("input", c.b("torch.hardswish_backward", c.grad(), c.in("input"))); }

Arg hardswish_backward_body(Builder& b, const Args& a) {
  Formula x = compute(b, a["self"]), g = compute(b, a["grad_output"]);
  Formula inner = where(x < 3.0, g * (x / 3.0 + 0.5), g);
  return store_like(zeros_where(x <= -3.0, inner), a.tensor("grad_output").dtype, {a["grad_output"], a["self"]});
}

// ---- leaky_relu, prelu, rrelu ---------------------------------------------------------------------------------------

Arg leaky_relu_body(Builder& b, const Args& a) {
  check_floating("leaky_relu", "leaky_relu_cpu", a["input"]);
  Formula x = compute(b, a["input"]);
  return store(where(x > 0.0, x, x.call("prims.mul", a["negative_slope"])), a.tensor("input").dtype);
}

void leaky_relu_vjp(VjpContext& c) {
  c.put("input", c.b("torch.leaky_relu_backward", c.grad(), c.in("input"), c.args()["negative_slope"], false));
}

Arg leaky_relu_backward_body(Builder& b, const Args& a) {
  Formula x = compute(b, a["self"]), g = compute(b, a["grad_output"]);
  Formula below = g.call("prims.mul", a["negative_slope"]);
  return store_like(where(x > 0.0, g, below), a.tensor("grad_output").dtype, {a["self"], a["grad_output"]});
}

Arg rrelu_body(Builder& b, const Args& a) {
  THUNDER_CHECK(!a.flag("training"), NotImplemented, "rrelu", "training=True is not supported");
  THUNDER_CHECK(a.real("lower") <= a.real("upper"), Runtime, "rrelu",
                "Lower bound should be less than or equal to the upper bound");
  return b("torch.leaky_relu", contiguous(b, a["input"]), (a.real("lower") + a.real("upper")) / 2).arg();
}

// The weight along the channels of `x`.
Expr prelu_weight(const Expr& x, const Expr& w) {
  Dims shape(x.shape().size(), Dim(1));
  if (x.rank() >= 2) shape[1] = w.tensor().numel();
  return torch_reshape(w, shape);
}

Arg prelu_body(Builder& b, const Args& a) {
  const TensorType &x = a.tensor("input"), &w = a.tensor("weight");
  THUNDER_CHECK(x.dtype == w.dtype, Runtime, "prelu", "prelu: Type promoting not supported. Got ",
                scalar_type_name(x.dtype), " and ", scalar_type_name(w.dtype));
  THUNDER_CHECK(w.rank() <= 1, Runtime, "prelu",
                "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = ", w.rank());
  if (!(w.numel() == 1)) {
    THUNDER_CHECK(x.rank() > 0, Runtime, "prelu", "Not allow zero-dim input tensor.");
    Dim channels = x.rank() > 1 ? x.shape[1] : Dim(1);
    THUNDER_CHECK(channels == w.numel(), Runtime, "prelu",
                  "Mismatch of parameter numbers and input channel size. Found parameter numbers = ", w.numel(),
                  " and channel size = ", channels, ".");
  }
  check_floating("prelu", "prelu_cpu", a["input"]);
  Expr weight = reshape(b, a["weight"], [&] {
    Dims shape(x.shape.size(), Dim(1));
    if (x.rank() >= 2) shape[1] = w.numel();
    return shape;
  }());
  Formula wide = compute(b, expand_to(b, weight, x.shape)), v = compute(b, a["input"]);
  return store(where(v > 0.0, v, v * wide), x.dtype);
}

void prelu_vjp(VjpContext& c) {
  Expr x = c.in("input"), w = prelu_weight(x, c.in("weight")), g = c.grad();
  Expr positive = c.b("torch.gt", x, 0);
  if (c.needs("input")) c.put("input", c.b("torch.where", positive, g, g * w));
  if (c.needs("weight"))
    c.put("weight", torch_reshape(sum_to(c.b("torch.where", positive, 0.0, x * g), w.shape()), c.in("weight").shape()));
}

// ---- shrinking ------------------------------------------------------------------------------------------------------

Arg softshrink_body(Builder& b, const Args& a) {
  check_floating("softshrink", "softshrink_check", a["input"]);
  double l = a.real("lambd");
  THUNDER_CHECK(l >= 0, Runtime, "softshrink", "lambda must be greater or equal to 0, but found to be ", l, ".");
  Formula x = compute(b, a["input"]);
  Formula small = where(x < -l, x + l, x * 0.0);  // not a plain zero: NaN stays NaN
  return store(where(x > l, x - l, small), a.tensor("input").dtype);
}

void softshrink_vjp(VjpContext& c) {
  c.put("input", c.b("torch.softshrink_backward", c.grad(), c.in("input"), c.args()["lambd"]));
}

Arg hardshrink_body(Builder& b, const Args& a) {
  check_floating("hardshrink", "hardshrink_cpu", a["input"]);
  double l = a.real("lambd");
  Formula x(b, a["input"]);
  return zeros_where((x >= -l) & (x <= l), x);
}

void hardshrink_vjp(VjpContext& c) {
  c.put("input", c.b("torch.hardshrink_backward", c.grad(), c.in("input"), c.args()["lambd"]));
}

Arg shrink_backward(Builder& b, const Args& a, const char* grad) {
  double l = a.real("lambd");
  Formula x(b, a["self"]), g(b, a[grad]);
  return store_like(zeros_where((x >= -l) & (x <= l), g), g.dtype(), {a[grad], a["self"]});
}

Arg softshrink_backward_body(Builder& b, const Args& a) { return shrink_backward(b, a, "grad_output"); }
Arg hardshrink_backward_body(Builder& b, const Args& a) { return shrink_backward(b, a, "grad_out"); }

Arg tanhshrink_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  return (x - b("torch.tanh", x)).arg();
}

Arg softsign_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["input"]);
  THUNDER_CHECK(!is_bool(x.dtype()) || x.tensor().device.type != DeviceType::cpu, NotImplemented, "softsign",
                "\"abs_cpu\" not implemented for 'Bool'");
  return (x / b("torch.add", b("torch.abs", x), 1)).arg();
}

constexpr uint64_t kTags = kPointwise | kCheap;

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "relu(Tensor input) -> Tensor", .doc = "max(input, 0).", .tags = kTags, .body = relu_body,
     .vjp = relu_vjp, .aten = "relu", .python = "torch.relu torch.Tensor.relu"},
    {.schema = "relu.functional(Tensor input, bool inplace=False) -> Tensor", .doc = "max(input, 0).", .tags = kTags,
     .body = relu_body, .vjp = relu_vjp, .aten = "relu(input)", .python = "torch.nn.functional.relu"},
    {.schema = "threshold(Tensor input, Number threshold, Number value, bool inplace=False) -> Tensor",
     .doc = "input where it is above the threshold, value elsewhere.", .tags = kTags, .body = threshold_body,
     .vjp = threshold_vjp, .aten = "threshold(input, threshold, value)",
     .python = "torch.nn.functional.threshold torch.threshold"},
    {.schema = "threshold_backward(Tensor grad_output, Tensor self, Number threshold) -> Tensor",
     .doc = "Gradient of threshold and relu.", .tags = kTags, .body = threshold_backward_body,
     .aten = "threshold_backward", .python = "torch.ops.aten.threshold_backward"},
    {.schema = "hardtanh(Tensor input, Number min_val=-1.0, Number max_val=1.0, bool inplace=False) -> Tensor",
     .doc = "input clamped to [min_val, max_val].", .tags = kTags, .body = hardtanh_body, .vjp = hardtanh_vjp,
     .aten = "hardtanh(input, min_val, max_val)", .python = "torch.nn.functional.hardtanh"},
    {.schema = "relu6(Tensor input, bool inplace=False) -> Tensor", .doc = "input clamped to [0, 6].", .tags = kTags,
     .body = relu6_body, .vjp = relu6_vjp, .aten = "relu6(input)", .python = "torch.nn.functional.relu6"},
    {.schema = "hardtanh_backward(Tensor grad_output, Tensor self, Number min_val, Number max_val) -> Tensor",
     .doc = "Gradient of hardtanh.", .tags = kTags, .body = hardtanh_backward_body, .aten = "hardtanh_backward",
     .python = "torch.ops.aten.hardtanh_backward"},
    {.schema = "hardsigmoid(Tensor input, bool inplace=False) -> Tensor", .doc = "clamp(input + 3, 0, 6) / 6.",
     .tags = kTags, .body = hardsigmoid_body, .vjp = hardsigmoid_vjp, .aten = "hardsigmoid(input)",
     .python = "torch.nn.functional.hardsigmoid"},
    {.schema = "hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor", .doc = "Gradient of hardsigmoid.",
     .tags = kTags, .body = hardsigmoid_backward_body, .aten = "hardsigmoid_backward",
     .python = "torch.ops.aten.hardsigmoid_backward"},
    {.schema = "hardswish(Tensor input, bool inplace=False) -> Tensor", .doc = "input * clamp(input + 3, 0, 6) / 6.",
     .tags = kTags, .body = hardswish_body, .vjp = hardswish_vjp, .aten = "hardswish(input)",
     .python = "torch.nn.functional.hardswish"},
    {.schema = "hardswish_backward(Tensor grad_output, Tensor self) -> Tensor", .doc = "Gradient of hardswish.",
     .tags = kTags, .body = hardswish_backward_body, .aten = "hardswish_backward",
     .python = "torch.ops.aten.hardswish_backward"},
    {.schema = "leaky_relu(Tensor input, float negative_slope=0.01, bool inplace=False) -> Tensor",
     .doc = "input where positive, input * negative_slope elsewhere.", .tags = kTags, .body = leaky_relu_body,
     .vjp = leaky_relu_vjp, .aten = "leaky_relu(input, negative_slope)", .python = "torch.nn.functional.leaky_relu"},
    {.schema = "leaky_relu_backward(Tensor grad_output, Tensor self, float negative_slope, bool self_is_result) "
               "-> Tensor",
     .doc = "Gradient of leaky_relu.", .tags = kTags, .body = leaky_relu_backward_body, .aten = "leaky_relu_backward",
     .python = "torch.ops.aten.leaky_relu_backward"},
    {.schema = "rrelu(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False, "
               "bool inplace=False) -> Tensor",
     .doc = "leaky_relu with the mean of the two slopes, as in evaluation mode.", .tags = kTags, .body = rrelu_body,
     .python = "torch.nn.functional.rrelu"},
    {.schema = "prelu(Tensor input, Tensor weight) -> Tensor",
     .doc = "leaky_relu with a learned slope, one or one per channel.", .tags = kCheap, .body = prelu_body,
     .vjp = prelu_vjp, .aten = "prelu", .python = "torch.nn.functional.prelu torch.prelu torch.Tensor.prelu"},
    {.schema = "softshrink(Tensor input, float lambd=0.5) -> Tensor", .doc = "input moved towards 0 by lambd.",
     .tags = kTags, .body = softshrink_body, .vjp = softshrink_vjp, .aten = "softshrink",
     .python = "torch.nn.functional.softshrink"},
    {.schema = "softshrink_backward(Tensor grad_output, Tensor self, float lambd) -> Tensor",
     .doc = "Gradient of softshrink.", .tags = kTags, .body = softshrink_backward_body, .aten = "softshrink_backward",
     .python = "torch.ops.aten.softshrink_backward"},
    {.schema = "hardshrink(Tensor input, float lambd=0.5) -> Tensor",
     .doc = "input where its magnitude is above lambd, 0 elsewhere.", .tags = kTags, .body = hardshrink_body,
     .vjp = hardshrink_vjp, .aten = "hardshrink",
     .python = "torch.nn.functional.hardshrink torch.hardshrink torch.Tensor.hardshrink"},
    {.schema = "hardshrink_backward(Tensor grad_out, Tensor self, float lambd) -> Tensor",
     .doc = "Gradient of hardshrink.", .tags = kTags, .body = hardshrink_backward_body, .aten = "hardshrink_backward",
     .python = "torch.ops.aten.hardshrink_backward"},
    {.schema = "tanhshrink(Tensor input) -> Tensor", .doc = "input - tanh(input).", .tags = kTags,
     .body = tanhshrink_body, .python = "torch.nn.functional.tanhshrink"},
    {.schema = "softsign(Tensor input) -> Tensor", .doc = "input / (1 + |input|).", .tags = kTags,
     .body = softsign_body, .python = "torch.nn.functional.softsign"},
};
// clang-format on

}  // namespace

Records activation() { return kRecords; }

}  // namespace thunder::ops::torch
