// torch: smooth activation functions, with ATen's backward kernels as records.
#include <cmath>
#include <numbers>

#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

using std::numbers::sqrt2;

// ---- gelu -----------------------------------------------------------------------------------------------------------

constexpr double kTwoOverSqrtPi = 2.0 * std::numbers::inv_sqrtpi;
constexpr double kGeluBeta = sqrt2 * kTwoOverSqrtPi * 0.5;
constexpr double kGeluKappa = 0.044715;

bool is_tanh_form(const Args& a) {
  const std::string& form = a.str("approximate");
  THUNDER_CHECK(form == "none" || form == "tanh", Runtime, "gelu", "approximate argument must be either none or tanh.");
  return form == "tanh";
}

Arg gelu_body(Builder& b, const Args& a) {
  bool by_tanh = is_tanh_form(a);
  check_floating("gelu", "GeluKernelImpl", a["input"]);
  Formula x = compute(b, a["input"]);
  DType t = a.tensor("input").dtype;
  if (!by_tanh) return store(x * normal_cdf(x), t);
  return store(0.5 * x * (1.0 + tanh(kGeluBeta * (x + kGeluKappa * (x * x * x)))), t);
}

void gelu_vjp(VjpContext& c) {
  c.put("input", c.b("torch.gelu_backward", c.grad(), c.in("input"), kw("approximate", c.args()["approximate"])));
}

Arg gelu_backward_body(Builder& b, const Args& a) {
  Formula x = compute(b, a["self"]), g = compute(b, a["grad_output"]);
  DType t = a.tensor("grad_output").dtype;
  if (!is_tanh_form(a)) return store(g * gelu_slope(x), t);
  Formula square = x * x, slope = tanh(kGeluBeta * (x + kGeluKappa * (square * x)));
  Formula left = 0.5 * (1.0 + slope);
  Formula right = 0.5 * x * (1.0 - slope * slope) * (kGeluBeta * (1.0 + 3.0 * kGeluKappa * square));
  return store(g * (left + right), t);
}

// ---- silu, mish -----------------------------------------------------------------------------------------------------

Arg silu_body(Builder& b, const Args& a) {
  if (!is_complex(a.tensor("input").dtype)) check_floating("silu", "silu_cpu", a["input"]);
  Formula x = compute(b, a["input"]);
  return store(x / (1.0 + exp(-x)), a.tensor("input").dtype);
}

void silu_vjp(VjpContext& c) {
  Expr x = c.in("input");
  if (!is_complex(x.dtype())) return c.put("input", c.b("torch.silu_backward", c.grad(), x));
  Expr s = c.b("torch.sigmoid", x);
  c.put("input", c.grad() * conj(s * (1.0 + x * (1.0 - s))));
}

Arg silu_backward_body(Builder& b, const Args& a) {
  Formula x = compute(b, a["self"]), g = compute(b, a["grad_output"]);
  Formula s = sigmoid(x);
  return store(g * s * (1.0 + x * (1.0 - s)), a.tensor("grad_output").dtype);
}

Arg mish_body(Builder& b, const Args& a) {
  check_floating("mish", "mish_cpu", a["input"]);
  Formula x = compute(b, a["input"]);
  return store(x * tanh(log1p(exp(x))), a.tensor("input").dtype);
}

void mish_vjp(VjpContext& c) { c.put("input", c.b("torch.mish_backward", c.grad(), c.in("input"))); }

Arg mish_backward_body(Builder& b, const Args& a) {
  Formula x = compute(b, a["self"]), g = compute(b, a["grad_output"]);
  Formula s = sigmoid(x), t = tanh(log1p(exp(x)));
  return store(g * (t + x * s * (1.0 - t * t)), a.tensor("grad_output").dtype);
}

// ---- elu and its kin ------------------------------------------------------------------------------------------------

constexpr double kSeluAlpha = 1.6732632423543772848170429916717, kSeluScale = 1.0507009873554804934193349852946;

Arg scaled_elu(Builder& b, std::string_view op, const Arg& input, double alpha, double scale, double input_scale) {
  check_floating(op, "elu_cpu", input);
  Formula x = compute(b, input);
  Formula positive = scale == 1 ? x : x * scale;
  Formula inner = input_scale == 1 ? x : x * input_scale;
  return store(where(x < 0.0, expm1(inner) * (alpha * scale), positive), input.value().dtype());
}

Arg elu_body(Builder& b, const Args& a) { return scaled_elu(b, "elu", a["input"], a.real("alpha"), 1, 1); }
Arg selu_body(Builder& b, const Args& a) { return scaled_elu(b, "selu", a["input"], kSeluAlpha, kSeluScale, 1); }
Arg celu_body(Builder& b, const Args& a) {
  double alpha = a.real("alpha");
  THUNDER_CHECK(alpha != 0, Runtime, "celu", "ZeroDivisionError: alpha cannot be 0 for CELU");
  return scaled_elu(b, "celu", a["input"], alpha, 1, 1 / alpha);
}

void put_elu(VjpContext& c, double alpha, double scale, double input_scale) {
  c.put("input", c.b("torch.elu_backward", c.grad(), alpha, scale, input_scale, false, c.in("input")));
}
void elu_vjp(VjpContext& c) { put_elu(c, c.args().real("alpha"), 1, 1); }
void selu_vjp(VjpContext& c) { put_elu(c, kSeluAlpha, kSeluScale, 1); }
void celu_vjp(VjpContext& c) { put_elu(c, c.args().real("alpha"), 1, 1 / c.args().real("alpha")); }

Arg elu_backward_body(Builder& b, const Args& a) {
  Formula x = compute(b, a["self_or_result"]), g = compute(b, a["grad_output"]);
  double negative = a.real("alpha") * a.real("scale"), inner = a.real("input_scale");
  Formula below = a.flag("is_result") ? g * inner * (x + negative) : g * (inner * negative) * exp(x * inner);
  return store_like(where(x <= 0.0, below, g * a.real("scale")), a.tensor("grad_output").dtype,
                    {a["grad_output"], a["self_or_result"]});
}

// ---- softplus, logsigmoid, glu --------------------------------------------------------------------------------------

Arg softplus_body(Builder& b, const Args& a) {
  check_floating("softplus", "softplus_cpu", a["input"]);
  double beta = a.real("beta");
  Formula x = compute(b, a["input"]);
  Formula z = x * beta;
  return store(where(z > a.real("threshold"), x, log1p(exp(z)) / beta), a.tensor("input").dtype);
}

void softplus_vjp(VjpContext& c) {
  c.put("input", c.b("torch.softplus_backward", c.grad(), c.in("input"), c.args()["beta"], c.args()["threshold"]));
}

Arg softplus_backward_body(Builder& b, const Args& a) {
  Formula x = compute(b, a["self"]), g = compute(b, a["grad_output"]);
  Formula z = x * a.real("beta"), e = exp(z);
  Formula below = g * e / (e + 1.0);
  return store_like(where(z > a.real("threshold"), g, below), a.tensor("grad_output").dtype,
                    {a["grad_output"], a["self"]});
}

Arg logsigmoid_body(Builder& b, const Args& a) {
  check_floating("logsigmoid", "log_sigmoid_cpu", a["input"]);
  Arg input = a["input"];
  if (a.tensor("input").device.type == DeviceType::cpu)
    input = contiguous(b, input).arg();  // as ATen's CPU kernel lays it out
  Formula x = compute(b, input);
  return store(minimum(x, 0.0) - log1p(exp(-abs(x))), a.tensor("input").dtype);
}

void logsigmoid_vjp(VjpContext& c) {
  Expr x = c.in("input");
  Expr buffer = c.b("torch.exp", -c.b("torch.abs", x));
  c.put("input", c.b("torch.log_sigmoid_backward", c.grad(), x, buffer));
}

Arg log_sigmoid_backward_body(Builder& b, const Args& a) {
  Formula x = compute(b, a["self"]), g = compute(b, a["grad_output"]), z = compute(b, a["buffer"]);
  Formula share = z / (1.0 + z);
  Formula below = g * (1.0 - share), above = g * share;
  return store_like(where(x < 0.0, below, above), a.tensor("grad_output").dtype,
                    {a["self"], a["buffer"], a["grad_output"]});
}

int64_t glu_dim(const Args& a, std::string_view name) {
  const TensorType& t = a.tensor(name);
  THUNDER_CHECK(t.rank() > 0, Runtime, "glu", "glu does not support 0-dimensional tensors");
  int64_t dim = canonical_dim("glu", a.integer("dim"), t.rank());
  THUNDER_CHECK(mod(t.shape[dim], 2) == 0, Runtime, "glu", "Halving dimension must be even, but dimension ", dim,
                " is size ", t.shape[dim]);
  return dim;
}

// The half of a tensor along `dim`.
Formula half(Builder& b, const Arg& a, int64_t dim, bool second) {
  const Dims& shape = a.value().shape();
  Dims start(shape.size(), Dim(0)), end = shape, step(shape.size(), Dim(1));
  Dim middle = floordiv(shape[dim], 2);
  (second ? start : end)[dim] = middle;
  return compute(b, b("prims.slice", a, start, end, step));
}

Arg glu_body(Builder& b, const Args& a) {
  int64_t dim = glu_dim(a, "input");
  check_floating("glu", "glu_cpu", a["input"]);
  return store(half(b, a["input"], dim, false) * sigmoid(half(b, a["input"], dim, true)), a.tensor("input").dtype);
}

void glu_vjp(VjpContext& c) { c.put("input", c.b("torch.glu_backward", c.grad(), c.in("input"), c.args()["dim"])); }

Arg glu_backward_body(Builder& b, const Args& a) {
  int64_t dim = glu_dim(a, "self");
  Formula x = half(b, a["self"], dim, false), s = sigmoid(half(b, a["self"], dim, true)),
          g = compute(b, a["grad_output"]);
  DType t = a.tensor("grad_output").dtype;
  Arg first = store(g * s, t), second = store(g * s * (1.0 - s) * x, t);
  return b("prims.cat", Arg::list({first, second}), dim).arg();
}

constexpr uint64_t kTags = kPointwise | kCheap;

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "gelu(Tensor input, *, str approximate='none') -> Tensor",
     .doc = "input * the normal distribution function of input, exact or by tanh.", .tags = kTags, .body = gelu_body,
     .vjp = gelu_vjp, .aten = "gelu", .python = "torch.nn.functional.gelu torch._C._nn.gelu"},
    {.schema = "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
     .doc = "Gradient of gelu.", .tags = kTags, .body = gelu_backward_body, .aten = "gelu_backward",
     .python = "torch.ops.aten.gelu_backward"},
    {.schema = "silu(Tensor input, bool inplace=False) -> Tensor", .doc = "input * sigmoid(input).", .tags = kTags,
     .body = silu_body, .vjp = silu_vjp, .aten = "silu(input)", .python = "torch.nn.functional.silu"},
    {.schema = "silu_backward(Tensor grad_output, Tensor self) -> Tensor", .doc = "Gradient of silu.", .tags = kTags,
     .body = silu_backward_body, .aten = "silu_backward", .python = "torch.ops.aten.silu_backward"},
    {.schema = "mish(Tensor input, bool inplace=False) -> Tensor", .doc = "input * tanh(softplus(input)).",
     .tags = kTags, .body = mish_body, .vjp = mish_vjp, .aten = "mish(input)", .python = "torch.nn.functional.mish"},
    {.schema = "mish_backward(Tensor grad_output, Tensor self) -> Tensor", .doc = "Gradient of mish.", .tags = kTags,
     .body = mish_backward_body, .aten = "mish_backward", .python = "torch.ops.aten.mish_backward"},
    {.schema = "elu(Tensor input, float alpha=1.0, bool inplace=False) -> Tensor",
     .doc = "input where positive, alpha * (exp(input) - 1) elsewhere.", .tags = kTags, .body = elu_body,
     .vjp = elu_vjp, .aten = "elu(input, alpha)", .python = "torch.nn.functional.elu"},
    {.schema = "selu(Tensor input, bool inplace=False) -> Tensor", .doc = "elu with the self-normalising scales.",
     .tags = kTags, .body = selu_body, .vjp = selu_vjp, .aten = "selu(input)",
     .python = "torch.nn.functional.selu torch.selu"},
    {.schema = "celu(Tensor input, float alpha=1.0, bool inplace=False) -> Tensor",
     .doc = "input where positive, alpha * (exp(input / alpha) - 1) elsewhere.", .tags = kTags, .body = celu_body,
     .vjp = celu_vjp, .aten = "celu(input, alpha)", .python = "torch.nn.functional.celu torch.celu"},
    {.schema = "elu_backward(Tensor grad_output, float alpha, float scale, float input_scale, bool is_result, "
               "Tensor self_or_result) -> Tensor",
     .doc = "Gradient of elu, selu and celu.", .tags = kTags, .body = elu_backward_body, .aten = "elu_backward",
     .python = "torch.ops.aten.elu_backward"},
    {.schema = "softplus(Tensor input, float beta=1.0, float threshold=20.0) -> Tensor",
     .doc = "log(1 + exp(beta * input)) / beta; input itself above the threshold.", .tags = kTags,
     .body = softplus_body, .vjp = softplus_vjp, .aten = "softplus",
     .python = "torch.nn.functional.softplus torch._C._nn.softplus"},
    {.schema = "softplus_backward(Tensor grad_output, Tensor self, float beta, float threshold) -> Tensor",
     .doc = "Gradient of softplus.", .tags = kTags, .body = softplus_backward_body, .aten = "softplus_backward",
     .python = "torch.ops.aten.softplus_backward"},
    {.schema = "logsigmoid(Tensor input) -> Tensor", .doc = "log(sigmoid(input)).", .tags = kCheap,
     .body = logsigmoid_body, .vjp = logsigmoid_vjp, .aten = "log_sigmoid",
     .python = "torch.nn.functional.logsigmoid torch._C._nn.log_sigmoid"},
    {.schema = "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
     .doc = "Gradient of logsigmoid.", .tags = kTags, .body = log_sigmoid_backward_body, .aten = "log_sigmoid_backward",
     .python = "torch.ops.aten.log_sigmoid_backward"},
    {.schema = "glu(Tensor input, int dim=-1) -> Tensor",
     .doc = "First half of input times the sigmoid of the second, along dim.", .tags = kCheap, .body = glu_body,
     .vjp = glu_vjp, .aten = "glu", .python = "torch.nn.functional.glu torch._C._nn.glu"},
    {.schema = "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", .doc = "Gradient of glu.",
     .tags = kCheap, .body = glu_backward_body, .aten = "glu_backward", .python = "torch.ops.aten.glu_backward"},
};
// clang-format on

}  // namespace

Records smooth_activation() { return kRecords; }

}  // namespace thunder::ops::torch
