// Pointwise primitives: operands of one shape, dtype and device; the result's layout is that of PyTorch's tensor
// iterator.
#include "ops/prims/elementwise.h"

#include <algorithm>

#include "core/dtype_error.h"
#include "ops/common.h"
#include "ops/elementwise_rules.h"
#include "ops/prims/view_rules.h"

namespace thunder::ops::prims {
namespace {

constexpr uint64_t kTags = kPointwise | kCheap;
constexpr uint64_t kBoolTags = kTags | kNoGrad;
constexpr uint64_t kCompareTags = kBoolTags | kComparison;
constexpr double kInf = 1e9;

std::string_view op_name(const Args& a) { return a.op().schema.name; }

// ---- metas ----------------------------------------------------------------------------------------------------------

Types unary_any(const Args& a) { return {pointwise_type(a, {"a"})}; }

Types unary_inexact(const Args& a) {
  THUNDER_CHECK(is_inexact(a.tensor("a").dtype), Type, op_name(a), "expected a floating or complex dtype, got ",
                a.tensor("a").dtype);
  return {pointwise_type(a, {"a"})};
}

Types unary_float(const Args& a) {
  THUNDER_CHECK(is_floating(a.tensor("a").dtype), Type, op_name(a), "expected a floating dtype, got ",
                a.tensor("a").dtype);
  return {pointwise_type(a, {"a"})};
}

Types unary_real(const Args& a) {
  THUNDER_CHECK(!is_complex(a.tensor("a").dtype), Type, op_name(a), "expected a real dtype, got ", a.tensor("a").dtype);
  return {pointwise_type(a, {"a"})};
}

Types unary_integer(const Args& a) {
  THUNDER_CHECK(!is_inexact(a.tensor("a").dtype), Type, op_name(a), "expected an integer or boolean dtype, got ",
                a.tensor("a").dtype);
  return {pointwise_type(a, {"a"})};
}

Types unary_to_bool(const Args& a) { return {pointwise_type(a, {"a"}, DType::boolean)}; }

Types neg_meta(const Args& a) {
  THUNDER_CHECK(!is_bool(a.tensor("a").dtype), Runtime, "neg",
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
                "use the `~` or "
                "`logical_not()` operator instead.");
  return {pointwise_type(a, {"a"})};
}

Types abs_meta(const Args& a) { return {pointwise_type(a, {"a"}, real_part_type(a.tensor("a").dtype))}; }

// The real or imaginary part is a view of every other element.
Types complex_part(const Args& a) {
  TensorType t = a.tensor("a");
  THUNDER_CHECK_DTYPE(is_complex(t.dtype), op_name(a), op_name(a),
                      " is not implemented for tensors with non-complex dtypes.");
  t.dtype = real_part_type(t.dtype);
  for (Dim& s : t.strides) s = s * 2;
  t.requires_grad = false;
  return {t};
}

Types binary_any(const Args& a) { return {pointwise_type(a, {"a", "b"})}; }
// PyTorch's kernel for a number to the power of a tensor has a contiguous result.
Types pow_meta(const Args& a) {
  Types types = binary_any(a);
  if (a["a"].is_tensor()) return types;
  TensorType t = types[0].tensor();
  t.strides = contiguous_strides(t.shape);
  return {t};
}

Types compare(const Args& a) { return {pointwise_type(a, {"a", "b"}, DType::boolean)}; }

DType operand_dtype(const Args& a) { return (a["a"].is_tensor() ? a.tensor("a") : a.tensor("b")).dtype; }

Types binary_real(const Args& a) {
  Types t = binary_any(a);
  THUNDER_CHECK(!is_complex(operand_dtype(a)), Type, op_name(a), "expected a real dtype, got ", operand_dtype(a));
  return t;
}

Types compare_real(const Args& a) {
  Types t = compare(a);
  // Of PyTorch's kernels, which say so by a NotImplementedError.
  THUNDER_CHECK(!is_complex(operand_dtype(a)), NotImplemented, op_name(a), "expected a real dtype, got ",
                operand_dtype(a));
  return t;
}

Types binary_inexact(const Args& a) {
  Types t = binary_any(a);
  THUNDER_CHECK(is_inexact(operand_dtype(a)), Type, op_name(a), "expected a floating or complex dtype, got ",
                operand_dtype(a));
  return t;
}

Types binary_float(const Args& a) {
  Types t = binary_any(a);
  THUNDER_CHECK(is_floating(operand_dtype(a)), Type, op_name(a), "expected a floating dtype, got ", operand_dtype(a));
  return t;
}

Types binary_integer(const Args& a) {
  Types t = binary_any(a);
  THUNDER_CHECK(!is_inexact(operand_dtype(a)), Type, op_name(a), "expected an integer or boolean dtype, got ",
                operand_dtype(a));
  return t;
}

Types sub_meta(const Args& a) {
  THUNDER_CHECK(
      !is_bool(operand_dtype(a)), Runtime, "sub",
      "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
      "instead.");
  return binary_any(a);
}

Types where_meta(const Args& a) {
  const TensorType& pred = a.tensor("pred");
  THUNDER_CHECK_DTYPE(is_bool(pred.dtype), "where",
                      "expected condition to be a boolean tensor, but got a tensor with dtype ", pred.dtype);
  TensorType out = pointwise_type(a, {"a", "b"});
  THUNDER_CHECK(equal(pred.shape, out.shape) && pred.device == out.device, Runtime, "where",
                "expected operands of one shape and device, got ", str(pred.shape), " on ", pred.device, ", expected ",
                str(out.shape), " on ", out.device);
  std::vector<const Dims*> strides = {&pred.strides};
  for (const char* name : {"a", "b"})
    if (a[name].is_tensor()) strides.push_back(&a.tensor(name).strides);
  out.strides = elementwise_strides(out.shape, strides);
  return {out};
}

// ATen converts by a copy that keeps strides, also those of dimensions of size 1.  The result of a convolution with
// weights of 1 x 1 lies as these strides of the weight suggest.
Types convert_meta(const Args& a) {
  TensorType t = pointwise_type(a, {"a"}, a.dtype("dtype"));
  t.strides = preserve_format_strides(a.tensor("a"));
  return {t};
}

Types convert_types_meta(const Args& a) {
  const Op& one = Registry::instance().get("prims.convert_element_type");
  Types out;
  for (const Arg& t : a["tensors"].items()) {
    const ArgList args = {t, a["dtype"]};
    out.push_back(convert_meta(Args(one, args))[0]);
  }
  return out;
}

Arg convert_element_types_body(Builder& b, const Args& a) {
  ArgList out;
  for (const Arg& t : a["tensors"].items()) out.push_back(b("prims.convert_element_type", t, a["dtype"]));
  return Arg::list(std::move(out));
}

Types device_put_meta(const Args& a) {
  TensorType t = a.tensor("a");
  t.strides = preserve_format_strides(t);
  t.device = a.device("device");
  t.requires_grad = false;
  return {t};
}

Types clone_meta(const Args& a) {
  TensorType t = a.tensor("a");
  t.requires_grad = false;
  t.strides = strides_in(t, a["memory_format"]);
  return {t};
}

// ---- records --------------------------------------------------------------------------------------------------------

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "abs(Tensor a) -> Tensor", .doc = "|a|; of complex numbers the modulus, in the real dtype.",
     .tags = kTags, .meta = abs_meta, .vjp = abs_vjp, .aten = "abs", .scalar = "abs(a)"},
    {.schema = "acos(Tensor a) -> Tensor", .doc = "Arc cosine of each element, in radians.", .tags = kTags,
     .meta = unary_inexact, .vjp = acos_vjp, .aten = "acos", .scalar = "acos(a)", .domain = {-0.99, 0.99}},
    {.schema = "acosh(Tensor a) -> Tensor", .doc = "Inverse hyperbolic cosine of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = acosh_vjp, .aten = "acosh", .scalar = "acosh(a)", .domain = {1.01, kInf}},
    {.schema = "asin(Tensor a) -> Tensor", .doc = "Arc sine of each element, in radians.", .tags = kTags,
     .meta = unary_inexact, .vjp = asin_vjp, .aten = "asin", .scalar = "asin(a)", .domain = {-0.99, 0.99}},
    {.schema = "asinh(Tensor a) -> Tensor", .doc = "Inverse hyperbolic sine of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = asinh_vjp, .aten = "asinh", .scalar = "asinh(a)"},
    {.schema = "atan(Tensor a) -> Tensor", .doc = "Arc tangent of each element, in radians.", .tags = kTags,
     .meta = unary_inexact, .vjp = atan_vjp, .aten = "atan", .scalar = "atan(a)"},
    {.schema = "atanh(Tensor a) -> Tensor", .doc = "Inverse hyperbolic tangent of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = atanh_vjp, .aten = "atanh", .scalar = "atanh(a)", .domain = {-0.99, 0.99}},
    {.schema = "bitwise_not(Tensor a) -> Tensor", .doc = "Every bit flipped; of booleans the negation.",
     .tags = kBoolTags, .meta = unary_integer, .aten = "bitwise_not",
     .scalar = "bitwise_not(a)"},
    {.schema = "ceil(Tensor a) -> Tensor", .doc = "The smallest integer not below each element, in the same dtype.",
     .tags = kTags | kSteps, .meta = unary_real, .vjp = zero_vjp, .aten = "ceil", .scalar = "ceil(a)"},
    {.schema = "conj(Tensor a) -> Tensor", .doc = "The complex conjugate of each element.", .tags = kTags,
     .meta = unary_any, .vjp = conj_vjp, .aten = "conj_physical", .write_back = write_conjugated},
    {.schema = "cos(Tensor a) -> Tensor", .doc = "Cosine of each element (radians).", .tags = kTags,
     .meta = unary_inexact, .vjp = cos_vjp, .aten = "cos", .scalar = "cos(a)"},
    {.schema = "cosh(Tensor a) -> Tensor", .doc = "Hyperbolic cosine of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = cosh_vjp, .aten = "cosh", .scalar = "cosh(a)", .domain = {-50, 50}},
    {.schema = "digamma(Tensor a) -> Tensor", .doc = "Derivative of the logarithm of the gamma function.",
     .tags = kTags, .meta = unary_float, .vjp = digamma_vjp, .aten = "digamma", .domain = {0.01, kInf}},
    {.schema = "erf(Tensor a) -> Tensor",
     .doc = "Error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to a.", .tags = kTags,
     .meta = unary_float, .vjp = erf_vjp, .aten = "erf", .scalar = "erf(a)"},
    {.schema = "erfc(Tensor a) -> Tensor", .doc = "1 - erf(a), without cancellation.", .tags = kTags,
     .meta = unary_float, .vjp = erfc_vjp, .aten = "erfc", .scalar = "erfc(a)"},
    {.schema = "erfinv(Tensor a) -> Tensor", .doc = "Inverse of the error function.", .tags = kTags,
     .meta = unary_float, .vjp = erfinv_vjp, .aten = "erfinv", .domain = {-0.99, 0.99}},
    {.schema = "exp(Tensor a) -> Tensor", .doc = "e to the power of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = exp_vjp, .aten = "exp", .scalar = "exp(a)", .domain = {-80, 80}},
    {.schema = "exp2(Tensor a) -> Tensor", .doc = "2 to the power of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = exp2_vjp, .aten = "exp2", .scalar = "exp2(a)", .domain = {-100, 100}},
    {.schema = "expm1(Tensor a) -> Tensor", .doc = "exp(a) - 1, accurate near 0.", .tags = kTags, .meta = unary_inexact,
     .vjp = expm1_vjp, .aten = "expm1", .scalar = "expm1(a)", .domain = {-80, 80}},
    {.schema = "floor(Tensor a) -> Tensor", .doc = "The largest integer not above each element, in the same dtype.",
     .tags = kTags | kSteps, .meta = unary_real, .vjp = zero_vjp, .aten = "floor", .scalar = "floor(a)"},
    {.schema = "gelu_slope(Tensor a) -> Tensor", .doc = "Derivative of a * normal_cdf(a).", .tags = kTags,
     .meta = unary_float, .vjp = gelu_slope_vjp, .scalar = "gelu_slope(a)"},
    {.schema = "i0(Tensor a) -> Tensor", .doc = "Modified Bessel function of the first kind, order 0.", .tags = kTags,
     .meta = unary_float, .vjp = i0_vjp, .aten = "i0", .domain = {-80, 80}},
    {.schema = "i1(Tensor a) -> Tensor", .doc = "Modified Bessel function of the first kind, order 1.", .tags = kTags,
     .meta = unary_float, .vjp = i1_vjp, .aten = "special_i1", .domain = {-80, 80}},
    {.schema = "imag(Tensor a) -> Tensor", .doc = "The imaginary parts, as a view.", .tags = kView | kCheap,
     .meta = complex_part, .vjp = imag_vjp, .aten = "imag"},
    {.schema = "isfinite(Tensor a) -> Tensor", .doc = "Whether each element is neither infinite nor NaN.",
     .tags = kBoolTags, .meta = unary_to_bool, .aten = "isfinite", .scalar = "isfinite(a)"},
    {.schema = "isinf(Tensor a) -> Tensor", .doc = "Whether each element is infinite.", .tags = kBoolTags,
     .meta = unary_to_bool, .aten = "isinf", .scalar = "isinf(a)"},
    {.schema = "isnan(Tensor a) -> Tensor", .doc = "Whether each element is NaN.", .tags = kBoolTags,
     .meta = unary_to_bool, .aten = "isnan", .scalar = "a != a"},
    {.schema = "lgamma(Tensor a) -> Tensor", .doc = "Logarithm of the absolute value of the gamma function.",
     .tags = kTags, .meta = unary_float, .vjp = lgamma_vjp, .aten = "lgamma", .scalar = "lgamma(a)",
     .domain = {0.01, kInf}},
    {.schema = "log(Tensor a) -> Tensor", .doc = "Natural logarithm of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = log_vjp, .aten = "log", .scalar = "log(a)", .domain = {1e-6, kInf}},
    {.schema = "log10(Tensor a) -> Tensor", .doc = "Logarithm to base 10 of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = log10_vjp, .aten = "log10", .scalar = "log10(a)", .domain = {1e-6, kInf}},
    {.schema = "log1p(Tensor a) -> Tensor", .doc = "log(1 + a), accurate near 0.", .tags = kTags, .meta = unary_inexact,
     .vjp = log1p_vjp, .aten = "log1p", .scalar = "log1p(a)", .domain = {-0.99, kInf}},
    {.schema = "log2(Tensor a) -> Tensor", .doc = "Logarithm to base 2 of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = log2_vjp, .aten = "log2", .scalar = "log2(a)", .domain = {1e-6, kInf}},
    {.schema = "normal_cdf(Tensor a) -> Tensor",
     .doc = "Normal distribution function, (1 + erf(a / sqrt(2))) / 2.  In float32 an executor's absolute error may be "
            "1.8e-7.",
     .tags = kTags, .meta = unary_float, .vjp = normal_cdf_vjp, .aten = "special_ndtr", .scalar = "normal_cdf(a)"},
    {.schema = "neg(Tensor a) -> Tensor", .doc = "-a; not defined for booleans.", .tags = kTags | kLinear,
     .meta = neg_meta, .vjp = neg_vjp, .aten = "neg", .scalar = "-a"},
    {.schema = "real(Tensor a) -> Tensor", .doc = "The real parts, as a view.", .tags = kView | kCheap,
     .meta = complex_part, .vjp = real_vjp, .aten = "real"},
    {.schema = "reciprocal(Tensor a) -> Tensor", .doc = "1 / a.", .tags = kTags, .meta = unary_inexact,
     .vjp = reciprocal_vjp, .aten = "reciprocal", .scalar = "1 / a", .domain = {0.01, kInf}},
    {.schema = "round(Tensor a) -> Tensor", .doc = "The nearest integer, ties to the even one, in the same dtype.",
     .tags = kTags | kSteps, .meta = unary_real, .vjp = zero_vjp, .aten = "round", .scalar = "rint(a)"},
    {.schema = "rsqrt(Tensor a) -> Tensor", .doc = "1 / sqrt(a).", .tags = kTags, .meta = unary_inexact,
     .vjp = rsqrt_vjp, .aten = "rsqrt", .scalar = "1 / sqrt(a)", .domain = {0.01, kInf}},
    {.schema = "sigmoid(Tensor a) -> Tensor", .doc = "1 / (1 + exp(-a)).", .tags = kTags, .meta = unary_inexact,
     .vjp = sigmoid_vjp, .aten = "sigmoid", .scalar = "1 / (1 + exp(-a))"},
    {.schema = "sign(Tensor a) -> Tensor", .doc = "-1, 0 or 1 as each element is below, at or above 0 (NaN gives 0).",
     .tags = kTags | kSteps, .meta = unary_real, .vjp = zero_vjp, .aten = "sign", .scalar = "(a > 0) - (a < 0)"},
    {.schema = "sgn(Tensor a) -> Tensor", .doc = "a / |a|, and 0 at 0; of real numbers the sign.",
     .tags = kTags | kSteps, .meta = unary_any, .vjp = sgn_vjp, .aten = "sgn",
     .scalar = "(a > 0) - (a < 0)"},
    {.schema = "signbit(Tensor a) -> Tensor", .doc = "Whether the sign bit is set (-0.0 included).", .tags = kBoolTags,
     .meta = unary_to_bool, .aten = "signbit", .scalar = "signbit(a)"},
    {.schema = "sin(Tensor a) -> Tensor", .doc = "Sine of each element (radians).", .tags = kTags,
     .meta = unary_inexact, .vjp = sin_vjp, .aten = "sin", .scalar = "sin(a)"},
    {.schema = "sinh(Tensor a) -> Tensor", .doc = "Hyperbolic sine of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = sinh_vjp, .aten = "sinh", .scalar = "sinh(a)", .domain = {-50, 50}},
    {.schema = "sqrt(Tensor a) -> Tensor", .doc = "Square root of each element.", .tags = kTags, .meta = unary_inexact,
     .vjp = sqrt_vjp, .aten = "sqrt", .scalar = "sqrt(a)", .domain = {0.01, kInf}},
    {.schema = "tan(Tensor a) -> Tensor", .doc = "Tangent of each element (radians).", .tags = kTags,
     .meta = unary_inexact, .vjp = tan_vjp, .aten = "tan", .scalar = "tan(a)", .domain = {-1.5, 1.5}},
    {.schema = "tanh(Tensor a) -> Tensor", .doc = "Hyperbolic tangent of each element.", .tags = kTags,
     .meta = unary_inexact, .vjp = tanh_vjp, .aten = "tanh", .scalar = "tanh(a)"},
    {.schema = "trunc(Tensor a) -> Tensor", .doc = "Each element without its fraction, in the same dtype.",
     .tags = kTags | kSteps, .meta = unary_real, .vjp = zero_vjp, .aten = "trunc", .scalar = "trunc(a)"},

    {.schema = "add(Scalar a, Scalar b) -> Tensor", .doc = "a + b; of booleans the logical or.",
     .tags = kTags | kCommutative, .meta = binary_any, .vjp = add_vjp, .aten = "add.Tensor", .scalar = "a + b"},
    {.schema = "atan2(Scalar a, Scalar b) -> Tensor",
     .doc = "The angle of the point (b, a), in radians between -pi and pi.", .tags = kTags, .meta = binary_float,
     .vjp = atan2_vjp, .aten = "atan2", .scalar = "atan2(a, b)"},
    {.schema = "bitwise_and(Scalar a, Scalar b) -> Tensor", .doc = "Bits set in both.",
     .tags = kBoolTags | kCommutative, .meta = binary_integer, .aten = "bitwise_and.Tensor", .scalar = "a & b"},
    {.schema = "bitwise_or(Scalar a, Scalar b) -> Tensor", .doc = "Bits set in either.",
     .tags = kBoolTags | kCommutative, .meta = binary_integer, .aten = "bitwise_or.Tensor", .scalar = "a | b"},
    {.schema = "bitwise_xor(Scalar a, Scalar b) -> Tensor", .doc = "Bits set in one but not the other.",
     .tags = kBoolTags | kCommutative, .meta = binary_integer, .aten = "bitwise_xor.Tensor", .scalar = "a ^ b"},
    {.schema = "copysign(Scalar a, Scalar b) -> Tensor", .doc = "The magnitude of a with the sign of b.", .tags = kTags,
     .meta = binary_float, .vjp = copysign_vjp, .aten = "copysign.Tensor", .scalar = "copysign(a, b)"},
    {.schema = "div(Scalar a, Scalar b) -> Tensor", .doc = "a / b, of floating or complex numbers.", .tags = kTags,
     .meta = binary_inexact, .vjp = div_vjp, .aten = "div.Tensor", .scalar = "a / b"},
    {.schema = "eq(Scalar a, Scalar b) -> Tensor", .doc = "Whether a equals b.", .tags = kCompareTags | kCommutative,
     .meta = compare, .aten = "eq.Tensor", .scalar = "a == b"},
    {.schema = "floor_div(Scalar a, Scalar b) -> Tensor",
     .doc = "The largest integer not above a / b, in the operands' dtype.", .tags = kTags | kSteps, .meta = binary_real,
     .vjp = zeros_vjp, .aten = "floor_divide", .scalar = "floor_div(a, b)"},
    {.schema = "fmod(Scalar a, Scalar b) -> Tensor",
     .doc = "The remainder of the division rounded towards zero: it has a's sign.", .tags = kTags | kSteps,
     .meta = binary_real, .vjp = fmod_vjp, .aten = "fmod.Tensor", .scalar = "fmod(a, b)"},
    {.schema = "ge(Scalar a, Scalar b) -> Tensor", .doc = "Whether a is at least b.", .tags = kCompareTags,
     .meta = compare_real, .aten = "ge.Tensor", .scalar = "a >= b"},
    {.schema = "gt(Scalar a, Scalar b) -> Tensor", .doc = "Whether a is above b.", .tags = kCompareTags,
     .meta = compare_real, .aten = "gt.Tensor", .scalar = "a > b"},
    {.schema = "hypot(Scalar a, Scalar b) -> Tensor", .doc = "sqrt(a^2 + b^2), without overflow in between.",
     .tags = kTags | kCommutative, .meta = binary_float, .vjp = hypot_vjp, .aten = "hypot", .scalar = "hypot(a, b)"},
    {.schema = "le(Scalar a, Scalar b) -> Tensor", .doc = "Whether a is at most b.", .tags = kCompareTags,
     .meta = compare_real, .aten = "le.Tensor", .scalar = "a <= b"},
    {.schema = "lt(Scalar a, Scalar b) -> Tensor", .doc = "Whether a is below b.", .tags = kCompareTags,
     .meta = compare_real, .aten = "lt.Tensor", .scalar = "a < b"},
    {.schema = "maximum(Scalar a, Scalar b) -> Tensor", .doc = "The larger of the two; NaN if either is.",
     .tags = kTags | kCommutative, .meta = binary_real, .vjp = maximum_vjp, .aten = "maximum",
     .scalar = "max(a, b)"},
    {.schema = "minimum(Scalar a, Scalar b) -> Tensor", .doc = "The smaller of the two; NaN if either is.",
     .tags = kTags | kCommutative, .meta = binary_real, .vjp = minimum_vjp, .aten = "minimum",
     .scalar = "min(a, b)"},
    {.schema = "mul(Scalar a, Scalar b) -> Tensor", .doc = "a * b; of booleans the logical and.",
     .tags = kTags | kCommutative, .meta = binary_any, .vjp = mul_vjp, .aten = "mul.Tensor", .scalar = "a * b"},
    {.schema = "ne(Scalar a, Scalar b) -> Tensor", .doc = "Whether a differs from b.",
     .tags = kCompareTags | kCommutative, .meta = compare, .aten = "ne.Tensor", .scalar = "a != b"},
    {.schema = "nextafter(Scalar a, Scalar b) -> Tensor",
     .doc = "The next representable number after a in the direction of b.", .tags = kTags | kSteps,
     .meta = binary_float, .vjp = nextafter_vjp, .aten = "nextafter", .scalar = "nextafter(a, b)"},
    {.schema = "pow(Scalar a, Scalar b) -> Tensor", .doc = "a to the power b.", .tags = kTags,
     .meta = pow_meta, .vjp = pow_vjp, .aten = "pow.Tensor_Tensor", .scalar = "pow(a, b)"},
    {.schema = "remainder(Scalar a, Scalar b) -> Tensor",
     .doc = "The remainder of the division rounded down: it has b's sign, as in Python.", .tags = kTags | kSteps,
     .meta = binary_real, .vjp = remainder_vjp, .aten = "remainder.Tensor",
     .scalar = "remainder(a, b)"},
    {.schema = "shift_left(Scalar a, Scalar b) -> Tensor", .doc = "a * 2^b, bits lost at the top.", .tags = kBoolTags,
     .meta = binary_integer, .aten = "bitwise_left_shift.Tensor", .scalar = "shift_left(a, b)"},
    {.schema = "shift_right(Scalar a, Scalar b) -> Tensor", .doc = "a / 2^b rounded down.", .tags = kBoolTags,
     .meta = binary_integer, .aten = "bitwise_right_shift.Tensor", .scalar = "shift_right(a, b)"},
    {.schema = "sub(Scalar a, Scalar b) -> Tensor", .doc = "a - b; not defined for booleans.", .tags = kTags,
     .meta = sub_meta, .vjp = sub_vjp, .aten = "sub.Tensor", .scalar = "a - b"},
    {.schema = "where(Tensor pred, Scalar a, Scalar b) -> Tensor", .doc = "a where the boolean pred holds, else b.",
     .tags = kTags, .meta = where_meta, .vjp = where_vjp, .aten = "where.self", .scalar = "pred ? a : b"},
    {.schema = "polygamma(int n, Tensor a) -> Tensor", .doc = "The n-th derivative of the digamma function.",
     .tags = kTags, .meta = unary_float, .vjp = polygamma_vjp, .aten = "polygamma", .domain = {0.1, kInf}},
    {.schema = "convert_element_type(Tensor a, dtype dtype) -> Tensor",
     .doc = "The same numbers in another dtype; floating to integer truncates, complex to real drops the imaginary "
            "part.",
     .tags = kTags, .meta = convert_meta, .vjp = convert_vjp,
     .aten = "_to_copy(a, dtype=dtype)", .scalar = "a"},
    {.schema = "convert_element_types(Tensor[] tensors, dtype dtype) -> Tensor[]",
     .doc = "convert_element_type of each tensor.", .tags = kCheap, .meta = convert_types_meta,
     .body = convert_element_types_body},
    {.schema = "device_put(Tensor a, device device) -> Tensor", .doc = "A copy on another device.",
     .tags = kWaits, .meta = device_put_meta, .vjp = device_put_vjp, .aten = "_to_copy(a, device=device)"},
    {.schema = "clone(Tensor a, *, memory_format? memory_format=None) -> Tensor",
     .doc = "A copy; in the layout of `a` if that has no gaps, or in the one asked for.", .tags = kTags,
     .meta = clone_meta, .vjp = identity_vjp, .aten = "clone", .scalar = "a"},
};
// clang-format on

}  // namespace

Records elementwise() { return kRecords; }

bool refuses_integers(const OpDef& primitive) {
  constexpr MetaFn kInexact[] = {unary_inexact, unary_float, binary_inexact, binary_float};
  return std::find(std::begin(kInexact), std::end(kInexact), primitive.meta) != std::end(kInexact);
}

}  // namespace thunder::ops::prims
