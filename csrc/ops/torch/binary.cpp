// torch.*: arithmetic of two operands, either of which may be a Python number.
#include <limits>

#include "core/dtype_error.h"
#include "ops/common.h"
#include "ops/elementwise_rules.h"

namespace thunder::ops::torch {
namespace {

constexpr uint64_t kTags = kPointwise | kCheap;

/// A primitive of another name.
template <Promotion P>
Arg call_prim(Builder& b, const Args& a, std::string_view prim) {
  return pointwise(b, prim, {a.list()[0], a.list()[1]}, P, a.op().schema.name);
}

bool is_bool_operand(const Arg& a) {
  return a.is_tensor() ? is_bool(a.value().dtype()) : a.number_kind() == NumberKind::Bool;
}
bool is_literal(const Arg& a, double x) { return a.is_literal_number() && a.complex() == x; }

/// Product of two numbers, both literals; a tensor if one is known only at run time.
Arg times(Builder& b, const Arg& x, const Arg& factor, DType t) {
  if (x.is_tensor()) return b("prims.mul", x, factor);
  if (x.kind() == Arg::Kind::Int && factor.kind() == Arg::Kind::Int) return x.dim() * factor.dim();
  bool literals = x.is_literal_number() && factor.is_literal_number();
  if (literals && x.kind() != Arg::Kind::Complex && factor.kind() != Arg::Kind::Complex)
    return x.real() * factor.real();
  if (literals) return x.complex() * factor.complex();
  return b("prims.mul", full(b, {}, x, t, {}), factor);
}

void check_alpha(std::string_view op, const Arg& alpha, DType t) {
  NumberKind kind = alpha.number_kind();
  THUNDER_CHECK(kind != NumberKind::Bool || is_bool(t), Runtime, op,
                "Boolean alpha only supported for Boolean results.");
  THUNDER_CHECK(is_inexact(t) || kind <= NumberKind::Int, Runtime, op,
                "For integral input tensors, argument alpha must not be a floating point number.");
  THUNDER_CHECK(is_complex(t) || kind != NumberKind::Complex, Runtime, op,
                "For non-complex input tensors, argument alpha must not be a complex number.");
}

// input + alpha * other, or input - alpha * other.
Arg scaled_sum(Builder& b, const Args& a, const char* prim) {
  const std::string& name = a.op().schema.name;
  const Arg& alpha = a["alpha"];
  DType t = result_type({a["input"], a["other"]});
  if (is_literal(alpha, 1) && alpha.kind() != Arg::Kind::Bool)
    return pointwise(b, prim, {a["input"], a["other"]}, Promotion::Default, name);
  check_alpha(name, alpha, t);
  Arg other = times(b, convert(b, a["other"], t), alpha, t);
  return pointwise(b, prim, {a["input"], other}, Promotion::Default, name);
}

void check_subtraction(const Arg& x, const Arg& y) {
  bool bx = is_bool_operand(x), by = is_bool_operand(y);
  THUNDER_CHECK(
      !bx || !by, Runtime, "sub",
      "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
      "instead.");
  THUNDER_CHECK(!bx && !by, Runtime, "sub",
                "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
                "mask, use the `~` or "
                "`logical_not()` operator instead.");
}

Arg add_body(Builder& b, const Args& a) { return scaled_sum(b, a, "prims.add"); }
Arg sub_body(Builder& b, const Args& a) {
  check_subtraction(a["input"], a["other"]);
  return scaled_sum(b, a, "prims.sub");
}
Arg rsub_body(Builder& b, const Args& a) { return b("torch.sub", a["other"], a["input"], kw("alpha", a["alpha"])); }

Arg rdiv_body(Builder& b, const Args& a) {
  Arg inverse = b("torch.reciprocal", a["other"]);
  const Arg& x = a["input"];
  bool one = x.is_literal_number() && x.kind() != Arg::Kind::Complex && x.real() == 1;
  return one ? inverse : Arg(b("torch.mul", inverse, x));
}

Arg trunc_div(Builder& b, const Args& a) {
  ArgList x = broadcast_operands(b, "div", {a["input"], a["other"]}, result_type({a["input"], a["other"]}));
  if (is_floating((x[0].is_tensor() ? x[0] : x[1]).value().dtype()))
    return b("prims.trunc", b("prims.div", x[0], x[1]));
  // What fmod leaves over has the dividend's sign, so the rest divides evenly.
  return b("prims.floor_div", b("prims.sub", x[0], b("prims.fmod", x[0], x[1])), x[1]);
}

Arg div_mode_body(Builder& b, const Args& a) {
  if (!a.has("rounding_mode")) return call_prim<Promotion::IntToFloat>(b, a, "prims.div");
  const std::string& mode = a.str("rounding_mode");
  THUNDER_CHECK(mode == "trunc" || mode == "floor", Runtime, "div",
                "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", mode, "'");
  return mode == "floor" ? call_prim<Promotion::Default>(b, a, "prims.floor_div") : trunc_div(b, a);
}

Arg floor_divide_body(Builder& b, const Args& a) { return call_prim<Promotion::Default>(b, a, "prims.floor_div"); }

// fmax and fmin: a NaN loses against a number.
Arg ignoring_nan(Builder& b, const Args& a, const char* prim) {
  ArgList x =
      broadcast_operands(b, a.op().schema.name, {a["input"], a["other"]}, result_type({a["input"], a["other"]}));
  Arg both = b(prim, x[0], x[1]);
  if (!is_floating(both.value().dtype())) return both;
  Arg not_first = b("prims.where", b("prims.isnan", x[0]), x[1], both);
  return b("prims.where", b("prims.isnan", x[1]), x[0], not_first);
}
Arg fmax_body(Builder& b, const Args& a) { return ignoring_nan(b, a, "prims.maximum"); }
Arg fmin_body(Builder& b, const Args& a) { return ignoring_nan(b, a, "prims.minimum"); }

// As log_add(), the larger one being that with the larger real part.
Arg complex_log_add(Builder& b, const Args& a, DType t) {
  const ArgList operands = broadcast_operands(b, a.op().schema.name, {a["input"], a["other"]}, t);
  const Expr x = b.expr(operands[0]), y = b.expr(operands[1]);
  Expr first = b("prims.ge", b("torch.real", x), b("torch.real", y));
  Expr larger = b("prims.where", first, x, y), smaller = b("prims.where", first, y, x);
  return (larger + b("prims.log1p", b("prims.exp", smaller - larger))).arg();
}

// log(base^x + base^y) as max + log1p(base^-|x - y|), which does not overflow.
Arg log_add(Builder& b, const Args& a, const char* exp, double log_base) {
  ArgList x =
      broadcast_operands(b, a.op().schema.name, {a["input"], a["other"]}, result_type({a["input"], a["other"]}));
  Arg larger = b("prims.maximum", x[0], x[1]);
  Arg distance = b("prims.abs", b("prims.sub", x[0], x[1]));
  Arg rest = b("prims.log1p", b(exp, b("prims.neg", distance)));
  if (log_base != 1) rest = b("prims.div", rest, log_base);
  // Equal infinities have no distance.
  Arg same_infinity = b("prims.bitwise_and", b("prims.isinf", x[0]), b("prims.eq", x[0], x[1]));
  return b("prims.where", same_infinity, x[0], b("prims.add", larger, rest));
}
Arg logaddexp_body(Builder& b, const Args& a) {
  const DType t = result_type({a["input"], a["other"]});
  return is_complex(t) ? complex_log_add(b, a, t) : log_add(b, a, "prims.exp", 1);
}
Arg logaddexp2_body(Builder& b, const Args& a) { return log_add(b, a, "prims.exp2", 0.69314718055994530942); }

// input * log(other), or a kin of the logarithm; 0 where the input is 0.
Arg times_log(Builder& b, const Args& a, const char* log) {
  const std::string& op = a.op().schema.name;
  DType t = apply(Promotion::IntToFloat, result_type({a["input"], a["other"]}));
  THUNDER_CHECK(!is_complex(t), NotImplemented, op, "not implemented for ", torch_name(t));
  ArgList x = broadcast_operands(b, op, {a["input"], a["other"]}, t);
  Device device = (x[0].is_tensor() ? x[0] : x[1]).value().tensor().device;
  for (Arg& operand : x)
    if (!operand.is_tensor()) operand = expand_to(b, full(b, {}, operand, t, device), broadcast_shape_of(op, x));
  Arg product = b("prims.mul", x[0], b(log, x[1]));
  Arg zero = b("prims.where", b("prims.eq", x[0], 0), 0.0, product);
  return b("prims.where", b("prims.isnan", x[1]), x[1], zero);
}

Arg xlogy_body(Builder& b, const Args& a) { return times_log(b, a, "prims.log"); }
Arg xlog1py_body(Builder& b, const Args& a) { return times_log(b, a, "prims.log1p"); }

void xlog1py_vjp(VjpContext& c) {
  Expr x = c.in("input"), y = c.in("other");
  if (c.needs("input")) {
    Expr undefined = c.b("torch.logical_and", c.b("torch.eq", x, 0), c.b("torch.le", y, -1));
    Expr logarithm = y.arg().is_tensor()
                         ? c.b("torch.log1p", y)
                         : c.b("torch.log1p", c.b("torch.scalar_tensor", y, kw("dtype", c.out().dtype())));
    put_reduced(c, "input", c.grad() * c.b("torch.where", undefined, 0, logarithm));
  }
  if (c.needs("other")) put_reduced(c, "other", c.grad() * c.b("torch.div", x, y + 1));
}

// The step function, with `values` at 0.
Arg heaviside_body(Builder& b, const Args& a) {
  DType t = a.tensor("input").dtype;
  THUNDER_CHECK(!is_complex(t) && !is_complex(a.tensor("values").dtype), Runtime, "heaviside",
                "heaviside is not yet implemented for complex tensors.");
  THUNDER_CHECK_DTYPE(t == a.tensor("values").dtype, "heaviside",
                      "heaviside is not yet implemented for tensors with different dtypes.");
  ArgList x = broadcast_operands(b, "heaviside", {a["input"], a["values"]}, t);
  Arg step = convert(b, b("prims.gt", x[0], is_bool(t) ? Arg(false) : Arg(0)), t);
  return b("prims.where", b("prims.eq", x[0], is_bool(t) ? Arg(false) : Arg(0)), x[1], step);
}

// ---- powers ---------------------------------------------------------------------------------------------------------

// Exponents that eager computes without pow(); an empty result if it is another.
Arg cheap_power(Builder& b, const Arg& x, double n) {
  DType t = x.value().dtype();
  if (n == 1) return b("prims.clone", x);
  if (n == 2) return b("prims.mul", x, x);
  if (n == 3) return b("prims.mul", b("prims.mul", x, x), x);
  if (!is_inexact(t)) return {};
  if (n == 0.5) return b("prims.sqrt", x);
  if (n == -0.5) return b("prims.rsqrt", x);
  if (n == -1) return b("prims.reciprocal", x);
  if (n == -2) return b("prims.reciprocal", b("prims.mul", x, x));
  return {};
}

Arg pow_scalar_body(Builder& b, const Args& a) {
  const Arg& n = a["exponent"];
  DType t = result_type({a["input"], n});
  bool real = n.is_real_literal();
  THUNDER_CHECK(is_inexact(t) || !real || n.real() >= 0, Runtime, "pow",
                "Integers to negative integer powers are not allowed.");
  Arg x = convert(b, a["input"], t);
  if (real)
    if (Arg y = cheap_power(b, x, n.real()); !y.is_none()) return y;
  return b("prims.pow", x, n);
}

Arg pow_body(Builder& b, const Args& a) { return call_prim<Promotion::Default>(b, a, "prims.pow"); }

Arg float_power_body(Builder& b, const Args& a) {
  DType t = is_complex(result_type({a["input"], a["exponent"]})) ? DType::c128 : DType::f64;
  Arg x = a["input"], n = a["exponent"];
  if (x.is_tensor()) x = b("torch.to", x, t);
  if (n.is_tensor()) n = b("torch.to", n, t);
  return b("torch.pow", x, n);
}

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "add(Scalar input, Scalar other, *, Number alpha=1) -> Tensor",
     .doc = "input + alpha * other, broadcast and promoted; of booleans the logical or.", .tags = kTags | kCommutative,
     .body = add_body, .vjp = add_vjp, .aten = "add.Tensor",
     .python = "torch.add torch.Tensor.add torch.Tensor.__add__ torch.Tensor.__radd__"},
    {.schema = "sub(Scalar input, Scalar other, *, Number alpha=1) -> Tensor",
     .doc = "input - alpha * other, broadcast and promoted; not defined for booleans.", .tags = kTags, .body = sub_body,
     .vjp = sub_vjp, .aten = "sub.Tensor",
     .python = "torch.sub torch.subtract torch.Tensor.sub torch.Tensor.subtract torch.Tensor.__sub__ "
               "torch.Tensor.__rsub__"},
    {.schema = "rsub(Scalar input, Scalar other, *, Number alpha=1) -> Tensor", .doc = "other - alpha * input.",
     .tags = kTags, .body = rsub_body, .python = "torch.rsub"},
    {.schema = "mul(Scalar input, Scalar other) -> Tensor",
     .doc = "input * other, broadcast and promoted; of booleans the logical and.", .tags = kTags | kCommutative,
     .body = same_primitive<Promotion::Default>, .vjp = mul_vjp, .aten = "mul.Tensor",
     .python = "torch.mul torch.multiply torch.Tensor.mul torch.Tensor.multiply torch.Tensor.__mul__ "
               "torch.Tensor.__rmul__"},
    {.schema = "div(Scalar input, Scalar other) -> Tensor",
     .doc = "input / other, broadcast; integers become the default floating dtype.", .tags = kTags,
     .body = same_primitive<Promotion::IntToFloat>, .vjp = div_vjp, .aten = "div.Tensor",
     .python = "torch.div torch.divide torch.true_divide torch.Tensor.div torch.Tensor.divide torch.Tensor.true_divide "
               "torch.Tensor.__truediv__ torch.Tensor.__div__"},
    {.schema = "rdiv(Scalar input, Scalar other) -> Tensor",
     .doc = "input * (1 / other), which is what PyTorch's tensors compute for number / tensor.", .tags = kTags,
     .body = rdiv_body, .python = "torch.Tensor.__rtruediv__ torch.Tensor.__rdiv__"},
    {.schema = "div.Tensor_mode(Scalar input, Scalar other, *, str? rounding_mode) -> Tensor",
     .doc = "input / other: exact for None, else rounded towards zero ('trunc') or down ('floor') in the promoted "
            "dtype.",
     .tags = kTags, .body = div_mode_body, .vjp = div_vjp, .aten = "div.Tensor_mode",
     .python = "torch.div torch.divide torch.Tensor.div torch.Tensor.divide"},
    {.schema = "floor_divide(Scalar input, Scalar other) -> Tensor",
     .doc = "The largest integer not above input / other, in the promoted dtype.", .tags = kTags,
     .body = floor_divide_body, .aten = "floor_divide",
     .python = "torch.floor_divide torch.Tensor.floor_divide torch.Tensor.__floordiv__ torch.Tensor.__rfloordiv__"},
    {.schema = "remainder(Scalar input, Scalar other) -> Tensor",
     .doc = "The remainder of the division rounded down, with the sign of `other`, as Python's %.", .tags = kTags,
     .body = same_primitive<Promotion::Default>, .vjp = remainder_vjp, .aten = "remainder.Tensor",
     .python = "torch.remainder torch.Tensor.remainder torch.Tensor.__mod__ torch.Tensor.__rmod__"},
    {.schema = "fmod(Tensor input, Scalar other) -> Tensor",
     .doc = "The remainder of the division rounded towards zero, with the sign of `input`.", .tags = kTags,
     .body = same_primitive<Promotion::Default>, .vjp = fmod_vjp, .aten = "fmod.Tensor",
     .python = "torch.fmod torch.Tensor.fmod"},
    {.schema = "pow(Tensor input, Number exponent) -> Tensor", .doc = "input to the power of a number.", .tags = kTags,
     .body = pow_scalar_body, .vjp = pow_vjp, .aten = "pow.Tensor_Scalar",
     .python = "torch.pow torch.Tensor.pow torch.Tensor.__pow__"},
    {.schema = "pow.Tensor_Tensor(Tensor input, Tensor exponent) -> Tensor",
     .doc = "input to the power of exponent, broadcast and promoted.", .tags = kTags, .body = pow_body, .vjp = pow_vjp,
     .aten = "pow.Tensor_Tensor", .python = "torch.pow torch.Tensor.pow torch.Tensor.__pow__"},
    {.schema = "pow.Scalar(Number self, Tensor exponent) -> Tensor", .doc = "A number to the powers in a tensor.",
     .tags = kTags, .body = pow_body, .vjp = pow_vjp, .aten = "pow.Scalar",
     .python = "torch.pow torch.Tensor.__rpow__"},
    {.schema = "float_power(Scalar input, Scalar exponent) -> Tensor",
     .doc = "input to the power of exponent, computed in float64 (complex128 for complex operands).", .tags = kTags,
     .body = float_power_body, .python = "torch.float_power torch.Tensor.float_power"},
    {.schema = "atan2(Tensor input, Tensor other) -> Tensor",
     .doc = "The angle of the point (other, input) in radians, between -pi and pi.", .tags = kTags,
     .body = same_primitive<Promotion::IntToFloat>, .vjp = atan2_vjp, .aten = "atan2",
     .python = "torch.atan2 torch.arctan2 torch.Tensor.atan2 torch.Tensor.arctan2"},
    {.schema = "copysign(Tensor input, Scalar other) -> Tensor",
     .doc = "The magnitude of input with the sign of other.", .tags = kTags, .body = same_primitive<Promotion::IntToFloat>,
     .vjp = copysign_vjp, .aten = "copysign.Tensor", .python = "torch.copysign torch.Tensor.copysign"},
    {.schema = "hypot(Tensor input, Tensor other) -> Tensor",
     .doc = "sqrt(input^2 + other^2), without overflow in between.", .tags = kTags,
     .body = same_primitive<Promotion::Default>, .vjp = hypot_vjp, .aten = "hypot",
     .python = "torch.hypot torch.Tensor.hypot"},
    {.schema = "logaddexp(Tensor input, Tensor other) -> Tensor",
     .doc = "log(exp(input) + exp(other)), without overflow.", .tags = kTags, .body = logaddexp_body,
     .vjp = logaddexp_vjp, .aten = "logaddexp", .python = "torch.logaddexp torch.Tensor.logaddexp"},
    {.schema = "logaddexp2(Tensor input, Tensor other) -> Tensor", .doc = "log2(2^input + 2^other), without overflow.",
     .tags = kTags, .body = logaddexp2_body, .vjp = logaddexp2_vjp, .aten = "logaddexp2",
     .python = "torch.logaddexp2 torch.Tensor.logaddexp2"},
    {.schema = "maximum(Tensor input, Tensor other) -> Tensor", .doc = "The larger of the two; NaN if either is.",
     .tags = kTags | kCommutative, .body = same_primitive<Promotion::Default>, .vjp = maximum_vjp, .aten = "maximum",
     .python = "torch.maximum torch.Tensor.maximum"},
    {.schema = "minimum(Tensor input, Tensor other) -> Tensor", .doc = "The smaller of the two; NaN if either is.",
     .tags = kTags | kCommutative, .body = same_primitive<Promotion::Default>, .vjp = minimum_vjp, .aten = "minimum",
     .python = "torch.minimum torch.Tensor.minimum"},
    {.schema = "fmax(Tensor input, Tensor other) -> Tensor",
     .doc = "The larger of the two; a NaN loses against a number.", .tags = kTags, .body = fmax_body, .vjp = fmax_vjp,
     .aten = "fmax", .python = "torch.fmax torch.Tensor.fmax"},
    {.schema = "fmin(Tensor input, Tensor other) -> Tensor",
     .doc = "The smaller of the two; a NaN loses against a number.", .tags = kTags, .body = fmin_body, .vjp = fmin_vjp,
     .aten = "fmin", .python = "torch.fmin torch.Tensor.fmin"},
    {.schema = "nextafter(Tensor input, Tensor other) -> Tensor",
     .doc = "The next representable number after input in the direction of other.", .tags = kTags,
     .body = same_primitive<Promotion::Default>, .aten = "nextafter", .python = "torch.nextafter torch.Tensor.nextafter"},
    {.schema = "xlogy(Scalar input, Scalar other) -> Tensor",
     .doc = "input * log(other), 0 where input is 0 (unless other is NaN).", .tags = kTags, .body = xlogy_body,
     .vjp = xlogy_vjp, .aten = "xlogy.Tensor", .python = "torch.xlogy torch.special.xlogy torch.Tensor.xlogy",
     .domain = {0.01, 1e9}},
    {.schema = "xlog1py(Scalar input, Scalar other) -> Tensor",
     .doc = "input * log(1 + other), 0 where input is 0 (unless other is NaN).", .tags = kTags, .body = xlog1py_body,
     .vjp = xlog1py_vjp, .aten = "special_xlog1py", .python = "torch.special.xlog1py", .domain = {0.01, 1e9}},
    {.schema = "heaviside(Tensor input, Tensor values) -> Tensor",
     .doc = "0 below 0, 1 above it, and `values` at it.", .tags = kTags | kNoGrad, .body = heaviside_body,
     .aten = "heaviside", .python = "torch.heaviside torch.Tensor.heaviside"},
};
// clang-format on

}  // namespace

Records binary() { return kRecords; }

}  // namespace thunder::ops::torch
