// torch.*: pointwise operators of one tensor.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/common.h"
#include "ops/elementwise_rules.h"

namespace thunder::ops::torch {
namespace {

constexpr uint64_t kTags = kPointwise | kCheap;
constexpr uint64_t kBoolTags = kTags | kNoGrad | kComparison;

// ---- bodies ---------------------------------------------------------------------------------------------------------

Arg bitwise_not_body(Builder& b, const Args& a) {
  THUNDER_CHECK(!is_inexact(a.tensor("input").dtype), Type, "bitwise_not",
                "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
  return b("prims.bitwise_not", a["input"]);
}

Arg round_decimals(Builder& b, const Args& a) {
  int64_t decimals = a.integer("decimals");
  if (decimals == 0) return b("prims.round", a["input"]);
  double scale = std::pow(10.0, static_cast<double>(decimals < 0 ? -decimals : decimals));
  const char* to = decimals < 0 ? "prims.div" : "prims.mul";
  const char* back = decimals < 0 ? "prims.mul" : "prims.div";
  return b(back, b("prims.round", b(to, a["input"], scale)), scale);
}

Arg frac_body(Builder& b, const Args& a) { return b("prims.sub", a["input"], b("prims.trunc", a["input"])); }

Arg positive_body(Builder&, const Args& a) {
  THUNDER_CHECK(!is_bool(a.tensor("input").dtype), Runtime, "positive",
                "The `+` operator, on a bool tensor is not supported.");
  return a["input"];
}

Arg square_body(Builder& b, const Args& a) {
  Arg x = convert(b, a["input"], apply(Promotion::BoolToInt, a.tensor("input").dtype));
  return b("prims.mul", x, x);
}

Arg scaled_body(Builder& b, const Args& a, double factor) {
  return pointwise(b, "prims.mul", {a["input"], factor}, Promotion::IntToFloat);
}
Arg deg2rad_body(Builder& b, const Args& a) { return scaled_body(b, a, std::numbers::pi / 180); }
Arg rad2deg_body(Builder& b, const Args& a) { return scaled_body(b, a, 180 / std::numbers::pi); }

Arg conj_body(Builder& b, const Args& a) {
  return is_complex(a.tensor("input").dtype) ? Arg(b("prims.conj", a["input"])) : a["input"];
}

Arg sign_body(Builder& b, const Args& a) {
  THUNDER_CHECK(!is_complex(a.tensor("input").dtype), NotImplemented, "sign",
                "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.");
  return b("prims.sign", a["input"]);
}

Arg real_body(Builder& b, const Args& a) {
  return is_complex(a.tensor("input").dtype) ? Arg(b("prims.real", a["input"])) : a["input"];
}

Arg logical_not_body(Builder& b, const Args& a) {
  bool boolean = is_bool(a.tensor("input").dtype);
  return boolean ? b("prims.bitwise_not", a["input"]) : b("prims.eq", a["input"], 0);
}

template <int kSign>
Arg is_signed_inf(Builder& b, const Args& a) {
  if (is_floating(a.tensor("input").dtype))
    return b("prims.eq", a["input"], kSign * std::numeric_limits<double>::infinity());
  const TensorType& t = a.tensor("input");
  return full(b, t.shape, false, DType::boolean, t.device);
}

Arg logit_body(Builder& b, const Args& a) {
  THUNDER_CHECK(!is_complex(a.tensor("input").dtype), NotImplemented, "logit", "not implemented for ",
                torch_name(a.tensor("input").dtype));
  Arg x = convert(b, a["input"], apply(Promotion::IntToFloat, a.tensor("input").dtype));
  if (a.has("eps") && a.real("eps") >= 0) {
    double low = a.real("eps"), high = 1 - low;
    Arg below_high = b("prims.where", b("prims.gt", x, high), high, x);
    x = b("prims.where", b("prims.lt", x, low), low, below_high);
  }
  return b("prims.log", b("prims.div", x, b("prims.sub", 1, x)));
}

Arg sinc_body(Builder& b, const Args& a) {
  Arg x = convert(b, a["input"], apply(Promotion::IntToFloat, a.tensor("input").dtype));
  Arg angle = b("prims.mul", x, std::numbers::pi);
  return b("prims.where", b("prims.eq", x, 0), 1.0, b("prims.div", b("prims.sin", angle), angle));
}

// -x log(x) for positive numbers, 0 at 0, minus infinity below.
Arg entr_body(Builder& b, const Args& a) {
  THUNDER_CHECK(!is_complex(a.tensor("input").dtype), NotImplemented, "entr", "not implemented for ",
                torch_name(a.tensor("input").dtype));
  Arg x = convert(b, a["input"], apply(Promotion::IntToFloat, a.tensor("input").dtype));
  Arg positive = b("prims.mul", b("prims.neg", x), b("prims.log", x));
  Arg defined = b("prims.where", b("prims.lt", x, 0), -std::numeric_limits<double>::infinity(), positive);
  return b("prims.where", b("prims.eq", x, 0), 0.0, defined);
}

// ---- backward operators ---------------------------------------------------------------------------------------------

// grad * (1 - output^2); `output` is tanh's.
Arg tanh_backward_body(Builder& b, const Args& a) {
  Arg y = conj(b.expr(a["output"]));
  return b("prims.mul", a["grad_output"], b("prims.sub", 1, b("prims.mul", y, y)));
}

Arg sigmoid_backward_body(Builder& b, const Args& a) {
  Arg y = conj(b.expr(a["output"]));
  return b("prims.mul", b("prims.mul", a["grad_output"], b("prims.sub", 1, y)), y);
}

void tanh_backward_vjp(VjpContext& c) {
  Expr g = c.grad(), go = c.in("grad_output"), y = c.in("output");
  if (c.needs("grad_output")) put_reduced(c, "grad_output", c.b("torch.tanh_backward", g, y));
  if (c.needs("output")) put_reduced(c, "output", g * conj(go * y * -2));
}

void sigmoid_backward_vjp(VjpContext& c) {
  Expr g = c.grad(), go = c.in("grad_output"), y = c.in("output");
  if (c.needs("grad_output")) put_reduced(c, "grad_output", c.b("torch.sigmoid_backward", g, y));
  if (c.needs("output")) put_reduced(c, "output", g * conj(go * (y * -2 + 1)));
}

// ---- gradient rules of what has no primitive of its own -------------------------------------------------------------

void deg2rad_vjp(VjpContext& c) { put_reduced(c, 0, c.grad() * (std::numbers::pi / 180)); }
void rad2deg_vjp(VjpContext& c) { put_reduced(c, 0, c.grad() * (180 / std::numbers::pi)); }

void logit_vjp(VjpContext& c) {
  Expr x = c.in("input");
  Expr product = x * (1 - x);
  // The limits of the domain have an infinite slope, also where the zero is negative.
  Expr inside = c.b("torch.where", c.b("torch.eq", product, 0), c.grad() * std::numeric_limits<double>::infinity(),
                    c.grad() / product);
  bool clamps = c.args().has("eps") && c.args().real("eps") >= 0;
  double low = clamps ? c.args().real("eps") : 0;
  Expr outside = c.b("torch.logical_or", c.b("torch.lt", x, low), c.b("torch.gt", x, 1 - low));
  put_reduced(c, 0, c.b("torch.masked_fill", inside, outside, clamps ? 0 : std::numeric_limits<double>::quiet_NaN()));
}

void entr_vjp(VjpContext& c) { put_reduced(c, 0, c.grad() * -(c.b("torch.log", c.in("input")) + 1)); }

void sinc_vjp(VjpContext& c) {
  Expr x = c.in("input"), angle = x * std::numbers::pi;
  Expr divisor = x * x * std::numbers::pi;
  Expr slope = (angle * c.b("torch.cos", angle) - c.b("torch.sin", angle)) / divisor;
  put_reduced(c, 0, c.b("torch.masked_fill", c.grad() * conj(slope), c.b("torch.eq", divisor, 0), 0));
}

// ---- records --------------------------------------------------------------------------------------------------------

/// An operator whose integer operands become the default floating dtype.
constexpr OpDef floating(std::string_view schema, std::string_view doc, VjpFn vjp, std::string_view aten,
                         std::string_view python, Domain domain = {}) {
  return {.schema = schema,
          .doc = doc,
          .tags = kTags,
          .body = same_primitive<Promotion::IntToFloat>,
          .vjp = vjp,
          .aten = aten,
          .python = python,
          .domain = domain};
}

/// An operator that keeps the dtype.
constexpr OpDef keeping(std::string_view schema, std::string_view doc, VjpFn vjp, std::string_view aten,
                        std::string_view python, BodyFn body = same_primitive<Promotion::Default>) {
  return {.schema = schema, .doc = doc, .tags = kTags, .body = body, .vjp = vjp, .aten = aten, .python = python};
}

/// An operator with a boolean result.
constexpr OpDef predicate(std::string_view schema, std::string_view doc, std::string_view aten, std::string_view python,
                          BodyFn body = same_primitive<Promotion::Default>) {
  return {.schema = schema, .doc = doc, .tags = kBoolTags, .body = body, .aten = aten, .python = python};
}

// clang-format off
constexpr OpDef kRecords[] = {
    keeping("abs(Tensor input) -> Tensor", "|input|; of complex numbers the modulus, in the real dtype.", abs_vjp,
            "abs", "torch.abs torch.absolute torch.Tensor.abs torch.Tensor.absolute torch.Tensor.__abs__"),
    floating("acos(Tensor input) -> Tensor", "Arc cosine of each element, in radians.", acos_vjp, "acos",
             "torch.acos torch.arccos torch.Tensor.acos torch.Tensor.arccos", {-0.99, 0.99}),
    floating("acosh(Tensor input) -> Tensor", "Inverse hyperbolic cosine of each element.", acosh_vjp, "acosh",
             "torch.acosh torch.arccosh torch.Tensor.acosh torch.Tensor.arccosh", {1.01, 1e9}),
    floating("asin(Tensor input) -> Tensor", "Arc sine of each element, in radians.", asin_vjp, "asin",
             "torch.asin torch.arcsin torch.Tensor.asin torch.Tensor.arcsin", {-0.99, 0.99}),
    floating("asinh(Tensor input) -> Tensor", "Inverse hyperbolic sine of each element.", asinh_vjp, "asinh",
             "torch.asinh torch.arcsinh torch.Tensor.asinh torch.Tensor.arcsinh"),
    floating("atan(Tensor input) -> Tensor", "Arc tangent of each element, in radians.", atan_vjp, "atan",
             "torch.atan torch.arctan torch.Tensor.atan torch.Tensor.arctan"),
    floating("atanh(Tensor input) -> Tensor", "Inverse hyperbolic tangent of each element.", atanh_vjp, "atanh",
             "torch.atanh torch.arctanh torch.Tensor.atanh torch.Tensor.arctanh", {-0.99, 0.99}),
    {.schema = "bitwise_not(Tensor input) -> Tensor", .doc = "Every bit flipped; of booleans the negation.",
     .tags = kTags | kNoGrad, .body = bitwise_not_body, .aten = "bitwise_not",
     .python = "torch.bitwise_not torch.Tensor.bitwise_not torch.Tensor.__invert__"},
    keeping("ceil(Tensor input) -> Tensor", "The smallest integer not below each element, in the same dtype.", zero_vjp,
            "ceil", "torch.ceil torch.Tensor.ceil"),
    {.schema = "conj(Tensor input) -> Tensor",
     .doc = "The complex conjugate, which writes to either change; a real tensor itself.", .tags = kTags | kView | kReturnsInput,
     .body = conj_body, .vjp = conj_vjp, .aten = "conj_physical", .python = "torch.conj torch.Tensor.conj"},
    {.schema = "conj_physical(Tensor input) -> Tensor", .doc = "The complex conjugate; a real tensor itself.",
     .tags = kTags | kReturnsInput, .body = conj_body, .vjp = conj_vjp, .aten = "conj_physical",
     .python = "torch.conj_physical torch.Tensor.conj_physical"},
    floating("cos(Tensor input) -> Tensor", "Cosine of each element (radians).", cos_vjp, "cos",
             "torch.cos torch.Tensor.cos"),
    floating("cosh(Tensor input) -> Tensor", "Hyperbolic cosine of each element.", cosh_vjp, "cosh",
             "torch.cosh torch.Tensor.cosh", {-50, 50}),
    {.schema = "deg2rad(Tensor input) -> Tensor", .doc = "Degrees to radians: input * pi / 180.", .tags = kTags,
     .body = deg2rad_body, .vjp = deg2rad_vjp, .aten = "deg2rad", .python = "torch.deg2rad torch.Tensor.deg2rad"},
    floating("digamma(Tensor input) -> Tensor", "Derivative of the logarithm of the gamma function.", digamma_vjp,
             "digamma", "torch.digamma torch.special.digamma torch.special.psi torch.Tensor.digamma", {0.01, 1e9}),
    floating("erf(Tensor input) -> Tensor", "2/sqrt(pi) times the integral of exp(-t^2) from 0 to input.", erf_vjp,
             "erf", "torch.erf torch.special.erf torch.Tensor.erf"),
    floating("erfc(Tensor input) -> Tensor", "1 - erf(input), without cancellation.", erfc_vjp, "erfc",
             "torch.erfc torch.special.erfc torch.Tensor.erfc"),
    floating("erfinv(Tensor input) -> Tensor", "Inverse of the error function.", erfinv_vjp, "erfinv",
             "torch.erfinv torch.special.erfinv torch.Tensor.erfinv", {-0.99, 0.99}),
    floating("exp(Tensor input) -> Tensor", "e to the power of each element.", exp_vjp, "exp",
             "torch.exp torch.Tensor.exp",
             {-80, 80}),
    floating("exp2(Tensor input) -> Tensor", "2 to the power of each element.", exp2_vjp, "exp2",
             "torch.exp2 torch.special.exp2 torch.Tensor.exp2", {-100, 100}),
    floating("expm1(Tensor input) -> Tensor", "exp(input) - 1, accurate near 0.", expm1_vjp, "expm1",
             "torch.expm1 torch.special.expm1 torch.Tensor.expm1", {-80, 80}),
    keeping("floor(Tensor input) -> Tensor", "The largest integer not above each element, in the same dtype.", zero_vjp,
            "floor", "torch.floor torch.Tensor.floor"),
    keeping("frac(Tensor input) -> Tensor",
            "The part after the point, with the sign of the input: input - trunc(input).", identity_vjp, "frac",
            "torch.frac torch.Tensor.frac", frac_body),
    floating("i0(Tensor input) -> Tensor", "Modified Bessel function of the first kind, order 0.", i0_vjp, "i0",
             "torch.i0 torch.special.i0 torch.Tensor.i0", {-80, 80}),
    floating("i1(Tensor input) -> Tensor", "Modified Bessel function of the first kind, order 1.", i1_vjp, "special_i1",
             "torch.special.i1", {-80, 80}),
    {.schema = "imag(Tensor input) -> Tensor", .doc = "The imaginary parts of a complex tensor, as a view.",
     .body = same_primitive<Promotion::Default>, .vjp = imag_vjp, .aten = "imag", .python = "torch.imag"},
    predicate("isfinite(Tensor input) -> Tensor", "Whether each element is neither infinite nor NaN.", "isfinite",
              "torch.isfinite torch.Tensor.isfinite"),
    predicate("isinf(Tensor input) -> Tensor", "Whether each element is infinite.", "isinf",
              "torch.isinf torch.Tensor.isinf"),
    predicate("isnan(Tensor input) -> Tensor", "Whether each element is NaN.", "isnan",
              "torch.isnan torch.Tensor.isnan"),
    predicate("isneginf(Tensor input) -> Tensor", "Whether each element is minus infinity.", "isneginf",
              "torch.isneginf torch.Tensor.isneginf", is_signed_inf<-1>),
    predicate("isposinf(Tensor input) -> Tensor", "Whether each element is plus infinity.", "isposinf",
              "torch.isposinf torch.Tensor.isposinf", is_signed_inf<1>),
    floating("lgamma(Tensor input) -> Tensor", "Logarithm of the absolute value of the gamma function.", lgamma_vjp,
             "lgamma", "torch.lgamma torch.special.gammaln torch.Tensor.lgamma", {0.01, 1e9}),
    floating("log(Tensor input) -> Tensor", "Natural logarithm of each element.", log_vjp, "log",
             "torch.log torch.Tensor.log",
             {1e-6, 1e9}),
    floating("log10(Tensor input) -> Tensor", "Logarithm to base 10 of each element.", log10_vjp, "log10",
             "torch.log10 torch.Tensor.log10", {1e-6, 1e9}),
    floating("log1p(Tensor input) -> Tensor", "log(1 + input), accurate near 0.", log1p_vjp, "log1p",
             "torch.log1p torch.special.log1p torch.Tensor.log1p", {-0.99, 1e9}),
    floating("log2(Tensor input) -> Tensor", "Logarithm to base 2 of each element.", log2_vjp, "log2",
             "torch.log2 torch.Tensor.log2", {1e-6, 1e9}),
    predicate("logical_not(Tensor input) -> Tensor", "Whether each element is 0 or False.", "logical_not",
              "torch.logical_not torch.Tensor.logical_not", logical_not_body),
    {.schema = "logit(Tensor input, float? eps=None) -> Tensor",
     .doc = "log(x / (1 - x)), x being the input clamped to [eps, 1 - eps] if eps is given.", .tags = kTags,
     .body = logit_body, .vjp = logit_vjp, .aten = "logit",
     .python = "torch.logit torch.special.logit torch.Tensor.logit", .domain = {0.01, 0.99}},
    keeping("neg(Tensor input) -> Tensor", "-input; not defined for booleans.", neg_vjp, "neg",
            "torch.neg torch.negative torch.Tensor.neg torch.Tensor.negative torch.Tensor.__neg__"),
    {.schema = "entr(Tensor input) -> Tensor", .doc = "-x log(x), 0 at 0 and minus infinity below it.", .tags = kTags,
     .body = entr_body, .vjp = entr_vjp, .aten = "special_entr", .python = "torch.special.entr", .domain = {0.01, 1e9}},
    {.schema = "polygamma(int n, Tensor input) -> Tensor", .doc = "The n-th derivative of the digamma function.",
     .tags = kTags,
     .body = [](Builder& b, const Args& a) -> Arg {
       return b("prims.polygamma", a["n"], convert(b, a["input"], apply(Promotion::IntToFloat,
       a.tensor("input").dtype)));
     },
     .vjp = polygamma_vjp, .aten = "polygamma", .python = "torch.polygamma torch.special.polygamma",
     .domain = {0.1, 1e9}},
    {.schema = "positive(Tensor input) -> Tensor", .doc = "The input itself.", .tags = kTags | kReturnsInput,
     .body = positive_body, .vjp = identity_vjp,
     .python = "torch.positive torch.Tensor.positive torch.Tensor.__pos__"},
    {.schema = "rad2deg(Tensor input) -> Tensor", .doc = "Radians to degrees: input * 180 / pi.", .tags = kTags,
     .body = rad2deg_body, .vjp = rad2deg_vjp, .aten = "rad2deg", .python = "torch.rad2deg torch.Tensor.rad2deg"},
    {.schema = "real(Tensor input) -> Tensor",
     .doc = "The real parts of a complex tensor, as a view; a real tensor itself.", .tags = kReturnsInput,
     .body = real_body, .vjp = real_vjp, .aten = "real", .python = "torch.real"},
    floating("reciprocal(Tensor input) -> Tensor", "1 / input.", reciprocal_vjp, "reciprocal",
             "torch.reciprocal torch.Tensor.reciprocal", {0.01, 1e9}),
    keeping("round(Tensor input) -> Tensor", "The nearest integer, ties to the even one, in the same dtype.", zero_vjp,
            "round", "torch.round torch.special.round torch.Tensor.round"),
    keeping("round.decimals(Tensor input, *, int decimals) -> Tensor",
            "The nearest multiple of 10 to the power -decimals, ties to the even one.", zero_vjp, "round.decimals",
            "torch.round torch.special.round torch.Tensor.round", round_decimals),
    floating("rsqrt(Tensor input) -> Tensor", "1 / sqrt(input).", rsqrt_vjp, "rsqrt", "torch.rsqrt torch.Tensor.rsqrt",
             {0.01, 1e9}),
    keeping("sgn(Tensor input) -> Tensor", "input / |input|, and 0 at 0; of real numbers the sign.", sgn_vjp, "sgn",
            "torch.sgn torch.Tensor.sgn"),
    floating("sigmoid(Tensor input) -> Tensor", "1 / (1 + exp(-input)).", sigmoid_vjp, "sigmoid",
             "torch.sigmoid torch.special.expit torch.nn.functional.sigmoid torch.Tensor.sigmoid"),
    keeping("sign(Tensor input) -> Tensor", "-1, 0 or 1 as each element is below, at or above 0.", zero_vjp, "sign",
            "torch.sign torch.Tensor.sign", sign_body),
    predicate("signbit(Tensor input) -> Tensor", "Whether the sign bit is set (-0.0 included).", "signbit",
              "torch.signbit torch.Tensor.signbit"),
    floating("sin(Tensor input) -> Tensor", "Sine of each element (radians).", sin_vjp, "sin",
             "torch.sin torch.Tensor.sin"),
    {.schema = "sinc(Tensor input) -> Tensor", .doc = "sin(pi x) / (pi x), and 1 at 0.", .tags = kTags,
     .body = sinc_body, .vjp = sinc_vjp, .aten = "sinc", .python = "torch.sinc torch.special.sinc torch.Tensor.sinc"},
    floating("sinh(Tensor input) -> Tensor", "Hyperbolic sine of each element.", sinh_vjp, "sinh",
             "torch.sinh torch.Tensor.sinh", {-50, 50}),
    floating("sqrt(Tensor input) -> Tensor", "Square root of each element.", sqrt_vjp, "sqrt",
             "torch.sqrt torch.Tensor.sqrt",
             {0.01, 1e9}),
    keeping("square(Tensor input) -> Tensor", "input * input.", square_vjp, "square",
            "torch.square torch.Tensor.square", square_body),
    floating("tan(Tensor input) -> Tensor", "Tangent of each element (radians).", tan_vjp, "tan",
             "torch.tan torch.Tensor.tan",
             {-1.5, 1.5}),
    floating("tanh(Tensor input) -> Tensor", "Hyperbolic tangent of each element.", tanh_vjp, "tanh",
             "torch.tanh torch.nn.functional.tanh torch.Tensor.tanh"),
    keeping("trunc(Tensor input) -> Tensor", "Each element without its fraction, in the same dtype.", zero_vjp, "trunc",
            "torch.trunc torch.fix torch.Tensor.trunc torch.Tensor.fix"),

    {.schema = "tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
     .doc = "Gradient of tanh from its output: grad_output * (1 - output^2).", .tags = kTags,
     .body = tanh_backward_body, .vjp = tanh_backward_vjp, .aten = "tanh_backward",
     .python = "torch.ops.aten.tanh_backward"},
    {.schema = "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
     .doc = "Gradient of the sigmoid from its output: grad_output * (1 - output) * output.", .tags = kTags,
     .body = sigmoid_backward_body, .vjp = sigmoid_backward_vjp, .aten = "sigmoid_backward",
     .python = "torch.ops.aten.sigmoid_backward"},
};
// clang-format on

}  // namespace

Records unary() { return kRecords; }

}  // namespace thunder::ops::torch
