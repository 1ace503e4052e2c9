// numpy.*: universal functions.
#include <limits>
#include <numbers>

#include "ops/common.h"
#include "ops/numpy/common.h"

namespace thunder::ops::numpy {
namespace {

constexpr uint64_t kTags = kPointwise | kCheap;
constexpr uint64_t kTestTags = kTags | kNoGrad | kComparison;

DType dtype_of(const Args& a) { return a.tensor("x").dtype; }

template <Prim prim>
Arg keeping_integers(Builder& b, const Args& a) {
  return is_inexact(dtype_of(a)) ? b(prim.text, a["x"]) : a["x"];
}

Arg absolute_body(Builder& b, const Args& a) { return is_bool(dtype_of(a)) ? a["x"] : b("prims.abs", a["x"]); }

template <Prim prim>
Arg not_of_booleans(Builder& b, const Args& a) {
  THUNDER_CHECK(!is_bool(result_type(a.list())), Type, a.op().schema.name,
                "not defined for booleans; use a logical or bitwise function");
  return ufunc<prim, Rule::Same>(b, a);
}

Arg square_body(Builder& b, const Args& a) {
  Arg x = convert(b, a["x"], apply(Rule::Number, dtype_of(a)));
  return b("prims.mul", x, x);
}

Arg reciprocal_body(Builder& b, const Args& a) {
  DType t = apply(Rule::Number, dtype_of(a));
  Arg x = convert(b, a["x"], t);
  if (is_inexact(t)) return b("prims.reciprocal", x);
  return b("prims.where", b("prims.eq", b("prims.mul", x, x), 1), x, 0);
}

template <int kNumerator, int kDenominator>
Arg degrees_body(Builder& b, const Args& a) {
  constexpr double kFactor = (kNumerator == 1 ? std::numbers::pi : kNumerator) /
                             (kDenominator == 1 ? std::numbers::pi : static_cast<double>(kDenominator));
  return b("prims.mul", convert(b, a["x"], computed_type(a, Rule::Real)), kFactor);
}

Arg sinc_body(Builder& b, const Args& a) {
  return b("torch.sinc", convert(b, a["x"], apply(Rule::Double, dtype_of(a))));
}

Arg conjugate_body(Builder& b, const Args& a) {
  return is_complex(dtype_of(a)) ? Arg(b("prims.conj", a["x"])) : convert(b, a["x"], apply(Rule::Number, dtype_of(a)));
}

Arg imag_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("val");
  return is_complex(x.dtype) ? Arg(b("prims.imag", a["val"])) : full(b, x.shape, 0, x.dtype, x.device);
}

Arg angle_body(Builder& b, const Args& a) {
  DType t = a.tensor("z").dtype;
  return b("torch.angle", convert(b, a["z"], apply(is_bool(t) ? Rule::Double : Rule::Floating, t)));
}

Arg round_body(Builder& b, const Args& a) {
  Expr x = b.expr(a["a"]);
  if (is_bool(x.dtype())) return convert(b, x, DType::f16);
  if (!is_inexact(x.dtype()) && a.integer("decimals") >= 0) return x;
  THUNDER_CHECK(is_inexact(x.dtype()), NotImplemented, "round", "integers to negative decimals");
  return b("torch.round", x, kw("decimals", a["decimals"]));
}

Arg nan_to_num_body(Builder& b, const Args& a) {
  return b("torch.nan_to_num", a["x"], a["nan"], a["posinf"], a["neginf"]);
}

// ---- truth ----------------------------------------------------------------------------------------------------------

template <Prim prim>
Arg logical(Builder& b, const Args& a) {
  ArgList truths;
  for (const Arg& x : a.list()) truths.push_back(truth(b, x));
  return b.call_named(prim.text, operands(b, a.op().schema.name, truths, DType::boolean), {});
}

// A Python integer that the arrays' dtype cannot hold is compared all the same.
template <Prim prim>
Arg compare(Builder& b, const Args& a) {
  DType t = result_type(a.list());
  for (const Arg& x : a.list())
    if (!x.is_tensor() && x.number_kind() == NumberKind::Int && !is_inexact(t)) t = DType::i64;
  return b.call_named(prim.text, operands(b, a.op().schema.name, a.list(), t), {});
}

Arg isclose_body(Builder& b, const Args& a) {
  ArgList x = tensor_operands(b, "isclose", {a["a"], a["b"]}, apply(Rule::Double, result_type({a["a"], a["b"]})));
  return b("torch.isclose", x[0], x[1], a["rtol"], a["atol"], a["equal_nan"]);
}

// ---- two operands ---------------------------------------------------------------------------------------------------

Arg power_body(Builder& b, const Args& a) {
  DType t = apply(Rule::Number, result_type(a.list()));
  const Arg& n = a["x2"];
  THUNDER_CHECK(is_inexact(t) || !n.is_real_literal() || n.real() >= 0, Value, "power",
                "Integers to negative integer powers are not allowed.");
  ArgList x = operands(b, "power", a.list(), t);
  return b("torch.pow", x[0], x[1]);
}

Arg float_power_body(Builder& b, const Args& a) {
  DType t = is_complex(result_type(a.list())) ? DType::c128 : DType::f64;
  ArgList x = operands(b, "float_power", a.list(), t);
  return b("torch.pow", x[0], x[1]);
}

Arg clip_body(Builder& b, const Args& a) {
  Arg low = a.has("a_min") ? a["a_min"] : a["min"], high = a.has("a_max") ? a["a_max"] : a["max"];
  DType t = result_type({a["a"], low, high});
  Arg x = convert(b, a["a"], t);
  for (const auto& [bound, prim] : {std::pair(low, "prims.maximum"), std::pair(high, "prims.minimum")})
    if (!bound.is_none()) x = b.call_named(prim, operands(b, "clip", {x, bound}, t), {});
  return x;
}

// ---- records --------------------------------------------------------------------------------------------------------

constexpr OpDef unary(std::string_view schema, std::string_view doc, BodyFn body, std::string_view python,
                      Domain domain = {}) {
  return {.schema = schema, .doc = doc, .tags = kTags, .body = body, .python = python, .domain = domain};
}
constexpr OpDef binary(std::string_view schema, std::string_view doc, BodyFn body, std::string_view python) {
  return {.schema = schema, .doc = doc, .tags = kTags, .body = body, .python = python};
}
constexpr OpDef test(std::string_view schema, std::string_view doc, BodyFn body, std::string_view python) {
  return {.schema = schema, .doc = doc, .tags = kTestTags, .body = body, .python = python};
}

// clang-format off
constexpr OpDef kRecords[] = {
    unary("absolute(Tensor x) -> Tensor", "|x|; of complex numbers the modulus.", absolute_body,
          "numpy.absolute numpy.abs numpy.ndarray.__abs__"),
    unary("arccos(Tensor x) -> Tensor", "Arc cosine of each element, in radians.", ufunc<"prims.acos", Rule::Floating>,
          "numpy.arccos numpy.acos", {-0.99, 0.99}),
    unary("arccosh(Tensor x) -> Tensor", "Inverse hyperbolic cosine of each element.",
          ufunc<"prims.acosh", Rule::Floating>, "numpy.arccosh numpy.acosh", {1.01, 1e9}),
    unary("arcsin(Tensor x) -> Tensor", "Arc sine of each element, in radians.", ufunc<"prims.asin", Rule::Floating>,
          "numpy.arcsin numpy.asin", {-0.99, 0.99}),
    unary("arcsinh(Tensor x) -> Tensor", "Inverse hyperbolic sine of each element.",
          ufunc<"prims.asinh", Rule::Floating>, "numpy.arcsinh numpy.asinh"),
    unary("arctan(Tensor x) -> Tensor", "Arc tangent of each element, in radians.",
          ufunc<"prims.atan", Rule::Floating>, "numpy.arctan numpy.atan"),
    unary("arctanh(Tensor x) -> Tensor", "Inverse hyperbolic tangent of each element.",
          ufunc<"prims.atanh", Rule::Floating>, "numpy.arctanh numpy.atanh", {-0.99, 0.99}),
    unary("angle(Tensor z) -> Tensor", "The angle of each complex number in radians.", angle_body, "numpy.angle"),
    unary("ceil(Tensor x) -> Tensor", "The smallest integer not below each element, in the same dtype.",
          keeping_integers<"prims.ceil">, "numpy.ceil"),
    unary("conjugate(Tensor x) -> Tensor", "The complex conjugate of each element.", conjugate_body,
          "numpy.conjugate numpy.conj numpy.ndarray.conj numpy.ndarray.conjugate"),
    unary("cos(Tensor x) -> Tensor", "Cosine of each element (radians).", ufunc<"prims.cos", Rule::Floating>,
          "numpy.cos"),
    unary("cosh(Tensor x) -> Tensor", "Hyperbolic cosine of each element.", ufunc<"prims.cosh", Rule::Floating>,
          "numpy.cosh", {-5, 5}),
    unary("deg2rad(Tensor x) -> Tensor", "Degrees to radians.", degrees_body<1, 180>, "numpy.deg2rad numpy.radians"),
    unary("exp(Tensor x) -> Tensor", "e to the power of each element.", ufunc<"prims.exp", Rule::Floating>,
          "numpy.exp", {-5, 5}),
    unary("exp2(Tensor x) -> Tensor", "2 to the power of each element.", ufunc<"prims.exp2", Rule::Floating>,
          "numpy.exp2", {-5, 5}),
    unary("expm1(Tensor x) -> Tensor", "exp(x) - 1, accurate near 0.", ufunc<"prims.expm1", Rule::Floating>,
          "numpy.expm1", {-5, 5}),
    unary("fabs(Tensor x) -> Tensor", "|x| as a floating number.", ufunc<"prims.abs", Rule::Real>, "numpy.fabs"),
    unary("floor(Tensor x) -> Tensor", "The largest integer not above each element, in the same dtype.",
          keeping_integers<"prims.floor">, "numpy.floor"),
    unary("imag(Tensor val) -> Tensor", "The imaginary parts; zeros of a real array.", imag_body, "numpy.imag"),
    unary("invert(Tensor x) -> Tensor", "Every bit flipped; of booleans the negation.",
          ufunc<"prims.bitwise_not", Rule::Same>,
          "numpy.invert numpy.bitwise_not numpy.bitwise_invert numpy.ndarray.__invert__"),
    unary("log(Tensor x) -> Tensor", "Natural logarithm of each element.", ufunc<"prims.log", Rule::Floating>,
          "numpy.log", {0.1, 1e9}),
    unary("log10(Tensor x) -> Tensor", "Logarithm to base 10 of each element.", ufunc<"prims.log10", Rule::Floating>,
          "numpy.log10", {0.1, 1e9}),
    unary("log1p(Tensor x) -> Tensor", "log(1 + x), accurate near 0.", ufunc<"prims.log1p", Rule::Floating>,
          "numpy.log1p", {-0.9, 1e9}),
    unary("log2(Tensor x) -> Tensor", "Logarithm to base 2 of each element.", ufunc<"prims.log2", Rule::Floating>,
          "numpy.log2", {0.1, 1e9}),
    unary("nan_to_num(Tensor x, *, float nan=0.0, float? posinf=None, float? neginf=None) -> Tensor",
          "Numbers in place of NaN and the infinities (the largest and smallest finite ones for None).",
          nan_to_num_body, "numpy.nan_to_num"),
    unary("negative(Tensor x) -> Tensor", "-x; not defined for booleans.", not_of_booleans<"prims.neg">,
          "numpy.negative numpy.ndarray.__neg__"),
    unary("positive(Tensor x) -> Tensor", "x; not defined for booleans.", not_of_booleans<"torch.positive">,
          "numpy.positive numpy.ndarray.__pos__"),
    unary("rad2deg(Tensor x) -> Tensor", "Radians to degrees.", degrees_body<180, 1>, "numpy.rad2deg numpy.degrees"),
    unary("real(Tensor val) -> Tensor", "The real parts; a real array itself.", same_as<"torch.real">, "numpy.real"),
    unary("reciprocal(Tensor x) -> Tensor", "1 / x, in the same dtype.", reciprocal_body, "numpy.reciprocal",
          {0.1, 1e9}),
    unary("rint(Tensor x) -> Tensor", "The nearest integer, ties to the even one, as a floating number.",
          ufunc<"prims.round", Rule::Floating>, "numpy.rint"),
    unary("round(Tensor a, int decimals=0) -> Tensor", "Rounded to so many decimals, ties to even.", round_body,
          "numpy.round numpy.around numpy.ndarray.round"),
    unary("sign(Tensor x) -> Tensor", "-1, 0 or 1 as each element is below, at or above 0; of complex numbers x / |x|.",
          not_of_booleans<"prims.sgn">, "numpy.sign"),
    unary("sin(Tensor x) -> Tensor", "Sine of each element (radians).", ufunc<"prims.sin", Rule::Floating>,
          "numpy.sin"),
    unary("sinc(Tensor x) -> Tensor", "sin(pi x) / (pi x), and 1 at 0.", sinc_body, "numpy.sinc"),
    unary("sinh(Tensor x) -> Tensor", "Hyperbolic sine of each element.", ufunc<"prims.sinh", Rule::Floating>,
          "numpy.sinh", {-5, 5}),
    unary("sqrt(Tensor x) -> Tensor", "Square root of each element.", ufunc<"prims.sqrt", Rule::Floating>,
          "numpy.sqrt", {0, 1e9}),
    unary("square(Tensor x) -> Tensor", "x * x.", square_body, "numpy.square"),
    unary("tan(Tensor x) -> Tensor", "Tangent of each element (radians).", ufunc<"prims.tan", Rule::Floating>,
          "numpy.tan", {-1.4, 1.4}),
    unary("tanh(Tensor x) -> Tensor", "Hyperbolic tangent of each element.", ufunc<"prims.tanh", Rule::Floating>,
          "numpy.tanh"),
    unary("trunc(Tensor x) -> Tensor", "Each element without its fraction, in the same dtype.",
          keeping_integers<"prims.trunc">, "numpy.trunc numpy.fix"),

    binary("add(Scalar x1, Scalar x2) -> Tensor", "x1 + x2; of booleans the logical or.",
           ufunc<"prims.add", Rule::Same>, "numpy.add numpy.ndarray.__add__ numpy.ndarray.__radd__"),
    binary("arctan2(Scalar x1, Scalar x2) -> Tensor", "The angle of the point (x2, x1) in radians.",
           ufunc<"prims.atan2", Rule::Real>, "numpy.arctan2 numpy.atan2"),
    binary("bitwise_and(Scalar x1, Scalar x2) -> Tensor", "Bits set in both.", ufunc<"prims.bitwise_and", Rule::Same>,
           "numpy.bitwise_and numpy.ndarray.__and__ numpy.ndarray.__rand__"),
    binary("bitwise_or(Scalar x1, Scalar x2) -> Tensor", "Bits set in either.", ufunc<"prims.bitwise_or", Rule::Same>,
           "numpy.bitwise_or numpy.ndarray.__or__ numpy.ndarray.__ror__"),
    binary("bitwise_xor(Scalar x1, Scalar x2) -> Tensor", "Bits set in one but not the other.",
           ufunc<"prims.bitwise_xor", Rule::Same>, "numpy.bitwise_xor numpy.ndarray.__xor__ numpy.ndarray.__rxor__"),
    binary("copysign(Scalar x1, Scalar x2) -> Tensor", "The magnitude of x1 with the sign of x2.",
           ufunc<"prims.copysign", Rule::Real>, "numpy.copysign"),
    binary("divide(Scalar x1, Scalar x2) -> Tensor", "x1 / x2; of integers in float64.",
           ufunc<"prims.div", Rule::Double>,
           "numpy.divide numpy.true_divide numpy.ndarray.__truediv__ numpy.ndarray.__rtruediv__"),
    binary("float_power(Scalar x1, Scalar x2) -> Tensor", "x1 to the power of x2, in float64 or complex128.",
           float_power_body, "numpy.float_power"),
    binary("floor_divide(Scalar x1, Scalar x2) -> Tensor", "The largest integer not above x1 / x2.",
           ufunc<"prims.floor_div", Rule::Number>,
           "numpy.floor_divide numpy.ndarray.__floordiv__ numpy.ndarray.__rfloordiv__"),
    binary("fmax(Scalar x1, Scalar x2) -> Tensor", "The larger of the two; a NaN loses against a number.",
           tensor_ufunc<"torch.fmax", Rule::Same>, "numpy.fmax"),
    binary("fmin(Scalar x1, Scalar x2) -> Tensor", "The smaller of the two; a NaN loses against a number.",
           tensor_ufunc<"torch.fmin", Rule::Same>, "numpy.fmin"),
    binary("fmod(Scalar x1, Scalar x2) -> Tensor", "The remainder with the sign of x1.",
           ufunc<"prims.fmod", Rule::Number>, "numpy.fmod"),
    binary("heaviside(Scalar x1, Scalar x2) -> Tensor", "0 below 0, 1 above it, x2 at 0.",
           tensor_ufunc<"torch.heaviside", Rule::Real>, "numpy.heaviside"),
    binary("hypot(Scalar x1, Scalar x2) -> Tensor", "sqrt(x1^2 + x2^2), without overflow in between.",
           ufunc<"prims.hypot", Rule::Real>, "numpy.hypot"),
    binary("left_shift(Scalar x1, Scalar x2) -> Tensor", "x1 * 2^x2, bits lost at the top.",
           ufunc<"prims.shift_left", Rule::Number>,
           "numpy.left_shift numpy.bitwise_left_shift numpy.ndarray.__lshift__ numpy.ndarray.__rlshift__"),
    binary("logaddexp(Scalar x1, Scalar x2) -> Tensor", "log(exp(x1) + exp(x2)), without overflow.",
           tensor_ufunc<"torch.logaddexp", Rule::Real>, "numpy.logaddexp"),
    binary("logaddexp2(Scalar x1, Scalar x2) -> Tensor", "log2(2^x1 + 2^x2), without overflow.",
           tensor_ufunc<"torch.logaddexp2", Rule::Real>, "numpy.logaddexp2"),
    binary("maximum(Scalar x1, Scalar x2) -> Tensor", "The larger of the two; NaN if either is.",
           ufunc<"prims.maximum", Rule::Same>, "numpy.maximum"),
    binary("minimum(Scalar x1, Scalar x2) -> Tensor", "The smaller of the two; NaN if either is.",
           ufunc<"prims.minimum", Rule::Same>, "numpy.minimum"),
    binary("multiply(Scalar x1, Scalar x2) -> Tensor", "x1 * x2; of booleans the logical and.",
           ufunc<"prims.mul", Rule::Same>, "numpy.multiply numpy.ndarray.__mul__ numpy.ndarray.__rmul__"),
    binary("nextafter(Scalar x1, Scalar x2) -> Tensor", "The next number after x1 towards x2.",
           tensor_ufunc<"torch.nextafter", Rule::Real>, "numpy.nextafter"),
    binary("power(Scalar x1, Scalar x2) -> Tensor",
           "x1 to the power of x2; an integer to a negative power that stands in an array gives 0, 1 or -1.",
           power_body, "numpy.power numpy.pow numpy.ndarray.__pow__ numpy.ndarray.__rpow__"),
    binary("remainder(Scalar x1, Scalar x2) -> Tensor", "The remainder with the sign of x2, as Python's %.",
           ufunc<"prims.remainder", Rule::Number>,
           "numpy.remainder numpy.mod numpy.ndarray.__mod__ numpy.ndarray.__rmod__"),
    binary("right_shift(Scalar x1, Scalar x2) -> Tensor", "x1 / 2^x2 rounded down.",
           ufunc<"prims.shift_right", Rule::Number>,
           "numpy.right_shift numpy.bitwise_right_shift numpy.ndarray.__rshift__ numpy.ndarray.__rrshift__"),
    binary("subtract(Scalar x1, Scalar x2) -> Tensor", "x1 - x2; not defined for booleans.",
           not_of_booleans<"prims.sub">, "numpy.subtract numpy.ndarray.__sub__ numpy.ndarray.__rsub__"),

    test("equal(Scalar x1, Scalar x2) -> Tensor", "Whether x1 equals x2.", compare<"prims.eq">,
         "numpy.equal numpy.ndarray.__eq__"),
    test("not_equal(Scalar x1, Scalar x2) -> Tensor", "Whether x1 differs from x2.", compare<"prims.ne">,
         "numpy.not_equal numpy.ndarray.__ne__"),
    test("less(Scalar x1, Scalar x2) -> Tensor", "Whether x1 is below x2.", compare<"prims.lt">,
         "numpy.less numpy.ndarray.__lt__"),
    test("less_equal(Scalar x1, Scalar x2) -> Tensor", "Whether x1 is at most x2.", compare<"prims.le">,
         "numpy.less_equal numpy.ndarray.__le__"),
    test("greater(Scalar x1, Scalar x2) -> Tensor", "Whether x1 is above x2.", compare<"prims.gt">,
         "numpy.greater numpy.ndarray.__gt__"),
    test("greater_equal(Scalar x1, Scalar x2) -> Tensor", "Whether x1 is at least x2.", compare<"prims.ge">,
         "numpy.greater_equal numpy.ndarray.__ge__"),
    test("logical_and(Scalar x1, Scalar x2) -> Tensor", "Whether neither is zero.", logical<"prims.bitwise_and">,
         "numpy.logical_and"),
    test("logical_or(Scalar x1, Scalar x2) -> Tensor", "Whether one is not zero.", logical<"prims.bitwise_or">,
         "numpy.logical_or"),
    test("logical_xor(Scalar x1, Scalar x2) -> Tensor", "Whether exactly one is not zero.",
         logical<"prims.bitwise_xor">, "numpy.logical_xor"),
    test("logical_not(Tensor x) -> Tensor", "Whether each element is zero.", logical<"prims.bitwise_not">,
         "numpy.logical_not"),
    test("isclose(Scalar a, Scalar b, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
         "Whether |a - b| <= atol + rtol |b|.", isclose_body, "numpy.isclose"),
    test("isfinite(Tensor x) -> Tensor", "Whether each element is neither infinite nor NaN.",
         same_as<"torch.isfinite">, "numpy.isfinite"),
    test("isinf(Tensor x) -> Tensor", "Whether each element is infinite.", same_as<"torch.isinf">, "numpy.isinf"),
    test("isnan(Tensor x) -> Tensor", "Whether each element is NaN.", same_as<"torch.isnan">, "numpy.isnan"),
    test("signbit(Tensor x) -> Tensor", "Whether the sign bit is set.", ufunc<"prims.signbit", Rule::Real>,
         "numpy.signbit"),

    binary("clip(Tensor a, Scalar? a_min=None, Scalar? a_max=None, *, Scalar? min=None, Scalar? max=None) -> Tensor",
           "Each element, or the bound beyond which it is.", clip_body, "numpy.clip numpy.ndarray.clip"),
};
// clang-format on

}  // namespace

Records elementwise() { return kRecords; }

}  // namespace thunder::ops::numpy
