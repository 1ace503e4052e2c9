// torch.*: selection, clamping and other pointwise operators of three operands.
#include <cmath>
#include <limits>

#include "core/dtype_error.h"
#include "ops/common.h"
#include "ops/elementwise_rules.h"
#include "ops/formula.h"

namespace thunder::ops::torch {
namespace {

constexpr uint64_t kTags = kPointwise | kCheap;

// ---- where, masked_fill ---------------------------------------------------------------------------------------------

Arg where_method_body(Builder& b, const Args& a) { return b("torch.where", a["condition"], a["input"], a["other"]); }

// A number that a tensor of dtype `t` can take: integers drop the fraction.
Arg number_for(const Arg& number, DType t) {
  if (!number.is_literal_number() || number.number_kind() <= number_kind(t)) return number;
  if (is_bool(t)) return number.complex() != 0.0;
  THUNDER_CHECK(number.number_kind() != NumberKind::Complex || is_complex(t), Runtime, "masked_fill",
                "value cannot be converted to type ", torch_name(t), " without overflow");
  return static_cast<int64_t>(number.real());
}

// The value in the tensor's dtype and on its device.
Arg fill_value(Builder& b, const Arg& value, const TensorType& t) {
  if (!value.is_tensor()) return number_for(value, t.dtype);
  THUNDER_CHECK(value.value().rank() == 0, Runtime, "masked_fill",
                "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ", value.value().rank(),
                " dimension(s).");
  Arg v = value.value().tensor().device == t.device ? value : Arg(b("prims.device_put", value, t.device));
  return convert(b, v, t.dtype);
}

Arg masked_fill_body(Builder& b, const Args& a) {
  const TensorType& x = a.tensor("input");
  const TensorType& mask = a.tensor("mask");
  THUNDER_CHECK_DTYPE(is_bool(mask.dtype), "masked_fill",
                      "masked_fill_ only supports boolean masks, but got mask with dtype ", torch_name(mask.dtype));
  Arg value = fill_value(b, a["value"], x);
  Dims shape = broadcast_shape_of("masked_fill", {a["input"], a["mask"]});
  Arg out =
      b("prims.where", expand_to(b, a["mask"], shape), expand_to(b, value, shape), expand_to(b, a["input"], shape));
  // Eager clones the input to a contiguous tensor and fills that.
  if (is_contiguous(out.value().tensor())) return out;
  return b("prims.clone", out, kw("memory_format", ConstantArg{"torch.contiguous_format"}));
}

void masked_fill_vjp(VjpContext& c) {
  Expr mask = c.in("mask");
  if (c.needs("input")) put_reduced(c, "input", c.b("torch.masked_fill", c.grad(), mask, 0));
  if (c.needs("value")) put_reduced(c, "value", c.b("torch.where", mask, c.grad(), 0));
}

void where_method_vjp(VjpContext& c) {
  Expr condition = c.in("condition");
  if (c.needs("input")) put_reduced(c, "input", c.b("torch.where", condition, c.grad(), 0));
  if (c.needs("other")) put_reduced(c, "other", c.b("torch.where", condition, 0, c.grad()));
}

// ---- clamp ----------------------------------------------------------------------------------------------------------

Arg clamp_body(Builder& b, const Args& a) {
  THUNDER_CHECK(a.has("min") || a.has("max"), Runtime, "clamp", "At least one of 'min' or 'max' must not be None");
  ArgList given = {a["input"]};
  for (const char* bound : {"min", "max"})
    if (a.has(bound)) given.push_back(a[bound]);
  ArgList x = broadcast_operands(b, "clamp", given, result_type(given));
  THUNDER_CHECK(!is_complex(x[0].value().dtype()), NotImplemented, "clamp", "clamp is not supported for complex types");
  Arg out = x[0];
  size_t next = 1;
  if (a.has("min")) out = b("prims.maximum", out, x[next++]);
  if (a.has("max")) out = b("prims.minimum", out, x[next]);
  return laid_out_as(x, b.expr(out));
}

Arg clamp_min_body(Builder& b, const Args& a) { return b("torch.clamp", a["input"], a["min"]); }
Arg clamp_max_body(Builder& b, const Args& a) { return b("torch.clamp", a["input"], nullptr, a["max"]); }

// A bound takes the gradient where it wins; the upper one wins where the bounds cross.
void clamp_vjp(VjpContext& c) {
  Expr x = c.in("input"), low = c.in("min"), high = c.in("max"), g = c.grad();
  if (c.needs("input")) {
    Expr inside = low.is_none() ? c.b("torch.le", x, high) : c.b("torch.ge", x, low);
    if (!low.is_none() && !high.is_none()) inside = c.b("torch.logical_and", inside, c.b("torch.le", x, high));
    put_reduced(c, "input", c.b("torch.where", inside, g, 0));
  }
  if (c.needs("min")) {
    Expr wins = c.b("torch.lt", x, low);
    if (!high.is_none()) wins = c.b("torch.logical_and", wins, c.b("torch.lt", low, high));
    put_reduced(c, "min", c.b("torch.where", wins, g, 0));
  }
  if (c.needs("max")) {
    Expr wins = c.b("torch.gt", x, high);
    if (!low.is_none()) wins = c.b("torch.logical_or", wins, c.b("torch.lt", high, low));
    put_reduced(c, "max", c.b("torch.where", wins, g, 0));
  }
}

// ---- lerp, addcmul, addcdiv -----------------------------------------------------------------------------------------

Arg lerp_body(Builder& b, const Args& a) {
  DType t = a.tensor("input").dtype, end = a.tensor("end").dtype;
  THUNDER_CHECK_DTYPE(t == end, "lerp", "expected dtype ", torch_name(t), " for `end` but got dtype ", torch_name(end));
  ArgList x = broadcast_operands(b, "lerp", {a["input"], a["end"], a["weight"]}, t);
  Arg distance = b("prims.sub", x[1], x[0]);
  // From the nearer end, as eager does.
  Arg near_start = b("prims.add", x[0], b("prims.mul", distance, x[2]));
  Arg near_end = b("prims.sub", x[1], b("prims.mul", distance, b("torch.rsub", x[2], 1)));
  return laid_out_as(x, b("prims.where", b("prims.lt", b("prims.abs", x[2]), 0.5), near_start, near_end));
}

Arg lerp_scalar_body(Builder& b, const Args& a) {
  DType t = a.tensor("input").dtype, end = a.tensor("end").dtype;
  THUNDER_CHECK_DTYPE(t == end, "lerp", "expected dtype ", torch_name(t), " for `end` but got dtype ", torch_name(end));
  const Arg& w = a["weight"];
  if (!w.is_literal_number() || w.kind() == Arg::Kind::Complex) {
    Arg weight = full(b, {}, w, t, a.tensor("input").device);
    return b("torch.lerp", a["input"], a["end"], weight);
  }
  ArgList x = broadcast_operands(b, "lerp", {a["input"], a["end"]}, t);
  Arg distance = b("prims.sub", x[1], x[0]);
  return laid_out_as(x, std::abs(w.real()) < 0.5 ? b("prims.add", x[0], b("prims.mul", distance, w))
                                                 : b("prims.sub", x[1], b("prims.mul", distance, 1 - w.real())));
}

void lerp_vjp(VjpContext& c) {
  Expr w = c.in("weight"), rest = c.b("torch.rsub", w, 1);
  if (c.needs("input")) put_reduced(c, "input", c.grad() * conj(rest));
  if (c.needs("end")) put_reduced(c, "end", c.grad() * conj(w));
  if (c.needs("weight")) put_reduced(c, "weight", c.grad() * conj(c.in("end") - c.in("input")));
}

void lerp_scalar_vjp(VjpContext& c) {
  Expr w = c.in("weight");
  Expr rest = !w.arg().is_literal_number()           ? c.b("torch.rsub", w, 1)
              : w.arg().kind() == Arg::Kind::Complex ? c.b.expr(1.0 - w.arg().complex())
                                                     : c.b.expr(1 - w.arg().real());
  if (c.needs("input")) put_reduced(c, "input", c.b("torch.mul", c.grad(), conj(rest)));
  if (c.needs("end")) put_reduced(c, "end", c.b("torch.mul", c.grad(), conj(w)));
}

Arg addc_body(Builder& b, const Args& a, const char* prim) {
  ArgList operands = {a["input"], a["tensor1"], a["tensor2"]};
  DType t = result_type(operands);
  THUNDER_CHECK(is_inexact(t) || a["value"].number_kind() <= NumberKind::Int, Runtime, a.op().schema.name,
                "For integral input tensors, argument value must not be a floating point number.");
  ArgList x = broadcast_operands(b, a.op().schema.name, operands, t);
  bool one = a["value"].is_literal_number() && a["value"].complex() == 1.0;
  Arg scaled = one ? x[1] : Arg(b("prims.mul", x[1], a["value"]));
  return laid_out_as(x, b("prims.add", x[0], b(prim, scaled, x[2])));
}

Arg addcmul_body(Builder& b, const Args& a) { return addc_body(b, a, "prims.mul"); }

Arg addcdiv_body(Builder& b, const Args& a) {
  THUNDER_CHECK(
      is_inexact(a.tensor("tensor1").dtype) || is_inexact(a.tensor("tensor2").dtype), Runtime, "addcdiv",
      "Integer division with addcdiv is no longer supported; use (input + value * torch.trunc(tensor1 / tensor2)) or "
      "(input + value * tensor1 / tensor2)");
  return addc_body(b, a, "prims.div");
}

Expr times_value(VjpContext& c, const Expr& x) {
  const Arg& value = c.args()["value"];
  return value.is_literal_number() && value.complex() == 1.0 ? x : c.b("torch.mul", x, value);
}

void addcmul_vjp(VjpContext& c) {
  put_reduced(c, "input", c.grad());
  if (c.needs("tensor1")) put_reduced(c, "tensor1", c.grad() * conj(times_value(c, c.in("tensor2"))));
  if (c.needs("tensor2")) put_reduced(c, "tensor2", c.grad() * conj(times_value(c, c.in("tensor1"))));
}

void addcdiv_vjp(VjpContext& c) {
  Expr d = c.in("tensor2");
  put_reduced(c, "input", c.grad());
  if (c.needs("tensor1")) put_reduced(c, "tensor1", c.grad() * conj(c.b("torch.div", c.args()["value"], d)));
  if (c.needs("tensor2")) put_reduced(c, "tensor2", -c.grad() * conj(times_value(c, c.in("tensor1")) / (d * d)));
}

// ---- nan_to_num -----------------------------------------------------------------------------------------------------

double largest(DType t) {
  switch (t) {
    case DType::f16: return 65504;
    case DType::bf16: return 0x1.FEp127;
    case DType::f64: return std::numeric_limits<double>::max();
    default: return std::numeric_limits<float>::max();
  }
}

Arg nan_to_num_body(Builder& b, const Args& a) {
  Arg x = a["input"];
  DType t = x.value().dtype();
  if (!is_floating(t)) return b("prims.clone", x);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double nan = a.has("nan") ? a.real("nan") : 0;
  double high = a.has("posinf") ? a.real("posinf") : largest(t), low = a.has("neginf") ? a.real("neginf") : -largest(t);
  Arg out = b("prims.where", b("prims.isnan", x), nan, x);
  out = b("prims.where", b("prims.eq", x, kInfinity), high, out);
  return b("prims.where", b("prims.eq", x, -kInfinity), low, out);
}

void nan_to_num_vjp(VjpContext& c) { put_reduced(c, 0, c.grad() * c.b("torch.isfinite", c.in("input"))); }

// clang-format off
constexpr OpDef kRecords[] = {
    {.schema = "where(Tensor condition, Scalar input, Scalar other) -> Tensor",
     .doc = "input where the condition holds, else other; the three are broadcast, the two promoted.", .tags = kTags,
     .body = where, .vjp = where_vjp, .aten = "where.self", .python = "torch.where"},
    {.schema = "where_method(Tensor input, Tensor condition, Scalar other) -> Tensor",
     .doc = "The method form of torch.where: input where the condition holds, else other.", .tags = kTags,
     .body = where_method_body, .vjp = where_method_vjp, .aten = "where.self(condition, input, other)",
     .python = "torch.Tensor.where"},
    {.schema = "masked_fill(Tensor input, Tensor mask, Number value) -> Tensor",
     .doc = "value where the mask holds, else input; the result is contiguous and has the input's dtype.",
     .tags = kTags, .body = masked_fill_body, .vjp = masked_fill_vjp, .aten = "masked_fill.Scalar",
     .python = "torch.masked_fill torch.Tensor.masked_fill"},
    {.schema = "masked_fill.Tensor(Tensor input, Tensor mask, Tensor value) -> Tensor",
     .doc = "As masked_fill, with a 0-d tensor for the value.", .tags = kTags, .body = masked_fill_body,
     .vjp = masked_fill_vjp, .aten = "masked_fill.Tensor", .python = "torch.masked_fill torch.Tensor.masked_fill"},
    {.schema = "clamp(Tensor input, Number? min=None, Number? max=None) -> Tensor",
     .doc = "min(max(input, min), max) with either bound left out; max where the bounds cross.", .tags = kTags,
     .body = clamp_body, .vjp = clamp_vjp, .aten = "clamp",
     .python = "torch.clamp torch.clip torch.Tensor.clamp torch.Tensor.clip"},
    {.schema = "clamp.Tensor(Tensor input, Tensor? min=None, Tensor? max=None) -> Tensor",
     .doc = "As clamp, with tensors for bounds, broadcast and promoted.", .tags = kTags, .body = clamp_body,
     .vjp = clamp_vjp, .aten = "clamp.Tensor", .python = "torch.clamp torch.clip torch.Tensor.clamp torch.Tensor.clip"},
    {.schema = "clamp_min(Tensor input, Scalar min) -> Tensor", .doc = "The larger of input and the bound.",
     .tags = kTags, .body = clamp_min_body, .python = "torch.clamp_min torch.Tensor.clamp_min"},
    {.schema = "clamp_max(Tensor input, Scalar max) -> Tensor", .doc = "The smaller of input and the bound.",
     .tags = kTags, .body = clamp_max_body, .python = "torch.clamp_max torch.Tensor.clamp_max"},
    {.schema = "lerp(Tensor input, Tensor end, Tensor weight) -> Tensor",
     .doc = "input + weight * (end - input), broadcast.", .tags = kTags, .body = lerp_body, .vjp = lerp_vjp,
     .aten = "lerp.Tensor", .python = "torch.lerp torch.Tensor.lerp"},
    {.schema = "lerp.Scalar(Tensor input, Tensor end, Number weight) -> Tensor",
     .doc = "input + weight * (end - input), broadcast.", .tags = kTags, .body = lerp_scalar_body,
     .vjp = lerp_scalar_vjp, .aten = "lerp.Scalar", .python = "torch.lerp torch.Tensor.lerp"},
    {.schema = "addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Number value=1) -> Tensor",
     .doc = "input + value * tensor1 * tensor2, broadcast and promoted.", .tags = kTags, .body = addcmul_body,
     .vjp = addcmul_vjp, .aten = "addcmul", .python = "torch.addcmul torch.Tensor.addcmul"},
    {.schema = "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Number value=1) -> Tensor",
     .doc = "input + value * tensor1 / tensor2, broadcast and promoted.", .tags = kTags, .body = addcdiv_body,
     .vjp = addcdiv_vjp, .aten = "addcdiv", .python = "torch.addcdiv torch.Tensor.addcdiv"},
    {.schema = "nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
     .doc = "NaN, infinity and minus infinity replaced: by 0, the dtype's largest and smallest number unless others "
            "are given.",
     .tags = kTags, .body = nan_to_num_body, .vjp = nan_to_num_vjp, .aten = "nan_to_num",
     .python = "torch.nan_to_num torch.Tensor.nan_to_num"},
};
// clang-format on

}  // namespace

Records ternary() { return kRecords; }

}  // namespace thunder::ops::torch
