#include "ops/numpy/common.h"

#include <cmath>

#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder::ops::numpy {
namespace {

DType signed_type(int bytes) {
  return bytes == 1 ? DType::i8 : bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64;
}

DType promote_integers(DType a, DType b) {
  if (is_unsigned(a) == is_unsigned(b)) return itemsize(a) >= itemsize(b) ? a : b;
  int bytes_unsigned = itemsize(is_unsigned(a) ? a : b), bytes_signed = itemsize(is_unsigned(a) ? b : a);
  if (bytes_signed > bytes_unsigned) return signed_type(bytes_signed);
  return bytes_unsigned == 8 ? DType::f64 : signed_type(2 * bytes_unsigned);
}

// The smallest float that holds all of an integer type.
DType float_of(DType t) {
  int bytes = is_bool(t) ? 1 : itemsize(t);
  return bytes == 1 ? DType::f16 : bytes == 2 ? DType::f32 : DType::f64;
}

DType promote_floats(DType a, DType b) {
  if (a == b) return a;
  if (is_float8(a) || is_float8(b) || itemsize(a) == itemsize(b)) return thunder::promote_types(a, b);
  return itemsize(a) > itemsize(b) ? a : b;
}

// Of an integer and a float.
DType promote_mixed(DType integer, DType floating) {
  if (floating == DType::bf16 && float_of(integer) == DType::f16) return floating;
  return promote_floats(float_of(integer), floating);
}

// A Python number only brings its kind.
DType with_number(DType t, NumberKind kind) {
  if (kind <= number_kind(t)) return t;
  if (kind == NumberKind::Int) return DType::i64;
  if (kind == NumberKind::Float) return DType::f64;
  return is_floating(t) ? promoted_type(t, DType::c64) : DType::c128;
}

void check_bounds(std::string_view op, const Arg& number, DType t) {
  if (number.kind() != Arg::Kind::Int || !number.is_literal_number() || !is_integral(t) || itemsize(t) == 8) return;
  double bits = 8.0 * itemsize(t), low = is_unsigned(t) ? 0 : -std::exp2(bits - 1),
         high = std::exp2(is_unsigned(t) ? bits : bits - 1) - 1;
  THUNDER_CHECK(low <= number.real() && number.real() <= high, Value, op, "Python integer ", number.dim(),
                " out of bounds for ", torch_name(t));
}

}  // namespace

DType promoted_type(DType a, DType b) {
  if (a == b || is_bool(b)) return a;
  if (is_bool(a)) return b;
  if (is_integral(a) && is_integral(b)) return promote_integers(a, b);
  if (is_complex(a) || is_complex(b)) {
    DType real = promoted_type(real_part_type(a), real_part_type(b));
    return real == DType::f64 ? DType::c128 : DType::c64;
  }
  if (is_integral(a)) return promote_mixed(a, b);
  return is_integral(b) ? promote_mixed(b, a) : promote_floats(a, b);
}

DType result_type(const ArgList& operands) {
  DType t = DType::boolean;
  for (const Arg& a : operands)
    if (a.is_tensor()) t = promoted_type(t, a.value().dtype());
  for (const Arg& a : operands)
    if (!a.is_none() && !a.is_tensor()) t = with_number(t, a.number_kind());
  return t;
}

DType apply(Rule rule, DType t) {
  if (rule == Rule::Number) return is_bool(t) ? DType::i8 : t;
  if (rule == Rule::Same || is_inexact(t)) return t;
  return rule == Rule::Double ? DType::f64 : float_of(t);
}

DType computed_type(const Args& a, Rule rule) {
  DType t = result_type(a.list());
  THUNDER_CHECK(rule != Rule::Real || !is_complex(t), Type, a.op().schema.name, "not defined for complex numbers, got ",
                torch_name(t));
  DType arrays = DType::boolean, floats = DType::f16;
  for (const Arg& x : a.list())
    if (x.is_tensor()) {
      arrays = promoted_type(arrays, x.value().dtype());
      floats = promoted_type(floats, apply(rule, x.value().dtype()));
    }
  // Each integer array becomes a float by itself: of 8 bits, with a sign and without, they are float16.
  return !is_inexact(t) && t == arrays && (rule == Rule::Floating || rule == Rule::Real) ? floats : apply(rule, t);
}

DType sum_type(DType t) { return is_inexact(t) ? t : is_unsigned(t) ? DType::u64 : DType::i64; }

ArgList operands(Builder& b, std::string_view op, const ArgList& given, DType t) {
  ArgList all = given;
  for (Arg& a : all) {
    if (a.is_tensor()) continue;
    check_bounds(op, a, t);
    if (a.kind() == Arg::Kind::Bool && !is_bool(t)) a = Arg(a.boolean() ? 1 : 0);
  }
  return broadcast_operands(b, op, all, t);
}

ArgList tensor_operands(Builder& b, std::string_view op, const ArgList& given, DType t) {
  ArgList tensors;
  for (const Arg& a : given) {
    if (!a.is_tensor()) check_bounds(op, a, t);
    tensors.push_back(a.is_tensor() ? a : full(b, {}, a, t, common_device(op, given)));
  }
  return operands(b, op, tensors, t);
}

DType dtype_or(const Args& a, DType otherwise) { return a.has("dtype") ? a.dtype("dtype") : otherwise; }

Arg truth(Builder& b, const Arg& x) {
  if (!x.is_tensor()) return x.is_literal_number() ? Arg(x.complex() != 0.0) : Arg(b("prims.ne", x, 0));
  return is_bool(x.value().dtype()) ? x : Arg(b("prims.ne", x, 0));
}

std::vector<int64_t> axes(const Args& a, const Expr& x) {
  const Arg& axis = a["axis"];
  const bool none = axis.is_sequence() && axis.items().empty();  // of an empty tuple; None means all
  return none ? std::vector<int64_t>() : canonical_dims(a.op().schema.name, axis, x.rank());
}

int64_t one_axis(const Args& a, std::string_view name, int64_t rank) {
  THUNDER_CHECK(rank > 0, Index, a.op().schema.name, "axis ", a.integer(name),
                " is out of bounds for array of dimension 0");
  return canonical_dim(a.op().schema.name, a.integer(name), rank);
}

Expr flat(const Expr& x) { return reshape(x, {x.tensor().numel()}); }

Arg maybe_keep(Builder& b, const Args& a, const Arg& reduced, const std::vector<int64_t>& axes) {
  return a.flag("keepdims") ? keep_dims(b, reduced, axes) : reduced;
}

void check_order(const Args& a) {
  THUNDER_CHECK(a.str("order") == "C", NotImplemented, a.op().schema.name, "expected order='C', got '", a.str("order"),
                "'");
}

}  // namespace thunder::ops::numpy
