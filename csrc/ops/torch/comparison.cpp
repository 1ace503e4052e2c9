// torch.*: comparisons, logical and bitwise operators.  None of them is differentiable.
#include "ops/common.h"

namespace thunder::ops::torch {
namespace {

constexpr uint64_t kTags = kPointwise | kCheap | kNoGrad;
constexpr uint64_t kBoolTags = kTags | kComparison;

Arg compare_body(Builder& b, const Args& a) {
  const std::string& name = a.op().schema.name;
  return pointwise(b, "prims." + name, {a["input"], a["other"]}, Promotion::Default, name);
}

// The operand's truth value: whether it is not 0.
Arg truth(Builder& b, const Arg& a) { return is_bool(a.value().dtype()) ? a : Arg(b("prims.ne", a, 0)); }

Arg logical_body(Builder& b, const Args& a) {
  const std::string& name = a.op().schema.name;  // logical_and -> bitwise_and
  return pointwise(b, "prims.bitwise_" + name.substr(name.find('_') + 1), {truth(b, a["input"]), truth(b, a["other"])},
                   Promotion::Default, name);
}

void check_integers(const Args& a) {
  DType t = result_type({a["input"], a["other"]});
  THUNDER_CHECK(!is_inexact(t), NotImplemented, a.op().schema.name, "not implemented for ", torch_name(t));
}

Arg bitwise_body(Builder& b, const Args& a) {
  check_integers(a);
  return compare_body(b, a);
}

template <bool kLeft>
Arg shift_body(Builder& b, const Args& a) {
  check_integers(a);
  return pointwise(b, kLeft ? "prims.shift_left" : "prims.shift_right", {a["input"], a["other"]}, Promotion::Default,
                   a.op().schema.name);
}

// |input - other| <= atol + rtol * |other|, or equal (which infinities can be).
Arg isclose_body(Builder& b, const Args& a) {
  const TensorType &x = a.tensor("input"), &y = a.tensor("other");
  THUNDER_CHECK(x.dtype == y.dtype, Runtime, "isclose", torch_name(x.dtype), " did not match ", torch_name(y.dtype));
  THUNDER_CHECK(a.real("rtol") >= 0, Runtime, "isclose", "rtol must be greater than or equal to zero, but got ",
                a.real("rtol"));
  THUNDER_CHECK(a.real("atol") >= 0, Runtime, "isclose", "atol must be greater than or equal to zero, but got ",
                a.real("atol"));
  Expr input = b.expr(a["input"]), other = b.expr(a["other"]);
  Expr close = b("torch.eq", input, other);
  if (a.flag("equal_nan") && is_inexact(x.dtype))
    close = b("torch.logical_or", close, b("torch.logical_and", b("torch.isnan", input), b("torch.isnan", other)));
  if (a.real("rtol") == 0 && a.real("atol") == 0) return close;
  if (!is_inexact(x.dtype)) other = b("torch.to", other, default_dtype());
  if (is_bool(x.dtype)) input = b("torch.to", input, default_dtype());
  Expr allowed = b("torch.abs", other * a.real("rtol")) + a.real("atol");
  Expr distance = b("torch.abs", input - other);
  Expr near = b("torch.logical_and", b("torch.isfinite", distance), b("torch.le", distance, allowed));
  return b("torch.logical_or", close, near);
}

// Whether all elements of a bool tensor are true, as a number that only the run knows.
Arg all_true(const Expr& each) {
  Builder& b = each.builder();
  return b("prims.item", b("torch.all", each)).arg();
}

Arg equal_body(Builder& b, const Args& a) {
  const TensorType &x = a.tensor("input"), &y = a.tensor("other");
  if (!equal(x.shape, y.shape)) return false;
  return all_true(b("torch.eq", a["input"], a["other"]));
}

Arg allclose_body(Builder& b, const Args& a) {
  return all_true(b("torch.isclose", a["input"], a["other"], a["rtol"], a["atol"], a["equal_nan"]));
}

constexpr OpDef comparison_record(std::string_view schema, std::string_view doc, std::string_view aten,
                                  std::string_view python) {
  return {.schema = schema, .doc = doc, .tags = kBoolTags, .body = compare_body, .aten = aten, .python = python};
}
constexpr OpDef logical(std::string_view schema, std::string_view doc, std::string_view aten, std::string_view python) {
  return {.schema = schema,
          .doc = doc,
          .tags = kBoolTags | kCommutative,
          .body = logical_body,
          .aten = aten,
          .python = python};
}
constexpr OpDef bitwise(std::string_view schema, std::string_view doc, std::string_view aten, std::string_view python) {
  return {
      .schema = schema, .doc = doc, .tags = kTags | kCommutative, .body = bitwise_body, .aten = aten, .python = python};
}

// clang-format off
constexpr OpDef kRecords[] = {
    comparison_record("eq(Scalar input, Scalar other) -> Tensor", "Whether each element of input equals that of other.",
                      "eq.Tensor", "torch.eq torch.Tensor.eq torch.Tensor.__eq__"),
    comparison_record("ne(Scalar input, Scalar other) -> Tensor",
                      "Whether each element of input differs from that of other.", "ne.Tensor",
                      "torch.ne torch.not_equal torch.Tensor.ne torch.Tensor.not_equal torch.Tensor.__ne__"),
    comparison_record("lt(Scalar input, Scalar other) -> Tensor",
                      "Whether each element of input is below that of other.", "lt.Tensor",
                      "torch.lt torch.less torch.Tensor.lt torch.Tensor.less torch.Tensor.__lt__"),
    comparison_record("le(Scalar input, Scalar other) -> Tensor",
                      "Whether each element of input is at most that of other.", "le.Tensor",
                      "torch.le torch.less_equal torch.Tensor.le torch.Tensor.less_equal torch.Tensor.__le__"),
    comparison_record("gt(Scalar input, Scalar other) -> Tensor",
                      "Whether each element of input is above that of other.", "gt.Tensor",
                      "torch.gt torch.greater torch.Tensor.gt torch.Tensor.greater torch.Tensor.__gt__"),
    comparison_record("ge(Scalar input, Scalar other) -> Tensor",
                      "Whether each element of input is at least that of other.", "ge.Tensor",
                      "torch.ge torch.greater_equal torch.Tensor.ge torch.Tensor.greater_equal torch.Tensor.__ge__"),
    logical("logical_and(Tensor input, Tensor other) -> Tensor", "Whether both are not 0.", "logical_and",
            "torch.logical_and torch.Tensor.logical_and"),
    logical("logical_or(Tensor input, Tensor other) -> Tensor", "Whether one of the two is not 0.", "logical_or",
            "torch.logical_or torch.Tensor.logical_or"),
    logical("logical_xor(Tensor input, Tensor other) -> Tensor", "Whether exactly one of the two is not 0.",
            "logical_xor", "torch.logical_xor torch.Tensor.logical_xor"),
    bitwise("bitwise_and(Scalar input, Scalar other) -> Tensor", "Bits set in both; of booleans the logical and.",
            "bitwise_and.Tensor",
            "torch.bitwise_and torch.Tensor.bitwise_and torch.Tensor.__and__ torch.Tensor.__rand__"),
    bitwise("bitwise_or(Scalar input, Scalar other) -> Tensor", "Bits set in either; of booleans the logical or.",
            "bitwise_or.Tensor", "torch.bitwise_or torch.Tensor.bitwise_or torch.Tensor.__or__ torch.Tensor.__ror__"),
    bitwise("bitwise_xor(Scalar input, Scalar other) -> Tensor", "Bits set in exactly one of the two.",
            "bitwise_xor.Tensor",
            "torch.bitwise_xor torch.Tensor.bitwise_xor torch.Tensor.__xor__ torch.Tensor.__rxor__"),
    {.schema = "bitwise_left_shift(Scalar input, Scalar other) -> Tensor",
     .doc = "input * 2^other, bits lost at the top.", .tags = kTags, .body = shift_body<true>,
     .aten = "bitwise_left_shift.Tensor",
     .python = "torch.bitwise_left_shift torch.Tensor.bitwise_left_shift torch.Tensor.__lshift__ "
               "torch.Tensor.__rlshift__"},
    {.schema = "bitwise_right_shift(Scalar input, Scalar other) -> Tensor", .doc = "input / 2^other, rounded down.",
     .tags = kTags, .body = shift_body<false>, .aten = "bitwise_right_shift.Tensor",
     .python = "torch.bitwise_right_shift torch.Tensor.bitwise_right_shift torch.Tensor.__rshift__ "
               "torch.Tensor.__rrshift__"},
    {.schema = "isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) "
               "-> Tensor",
     .doc = "Whether |input - other| <= atol + rtol * |other|; NaNs are close to each other if equal_nan.",
     .tags = kBoolTags, .body = isclose_body, .aten = "isclose", .python = "torch.isclose torch.Tensor.isclose"},
    {.schema = "allclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) "
               "-> Number",
     .doc = "Whether all elements are close to each other: isclose().", .tags = kNoGrad, .body = allclose_body,
     .python = "torch.allclose torch.Tensor.allclose"},
    {.schema = "equal(Tensor input, Tensor other) -> Number",
     .doc = "Whether two tensors have one shape and equal elements.", .tags = kNoGrad, .body = equal_body,
     .python = "torch.equal torch.Tensor.equal"},
};
// clang-format on

}  // namespace

Records comparison() { return kRecords; }

}  // namespace thunder::ops::torch
