#include "core/dtype.h"

#include <array>
#include <string>

#include "core/error.h"

namespace thunder {
namespace {

struct Info {
  std::string_view short_name, torch_name, scalar_type_name, cpp_type_name;
  int size;
  NumberKind kind;
};

constexpr std::array<Info, kNumDTypes> kInfo = {{
    {"b8", "bool", "Bool", "bool", 1, NumberKind::Bool},
    {"ui8", "uint8", "Byte", "unsigned char", 1, NumberKind::Int},
    {"ui16", "uint16", "UInt16", "UInt16", 2, NumberKind::Int},
    {"ui32", "uint32", "UInt32", "UInt32", 4, NumberKind::Int},
    {"ui64", "uint64", "UInt64", "UInt64", 8, NumberKind::Int},
    {"i8", "int8", "Char", "signed char", 1, NumberKind::Int},
    {"i16", "int16", "Short", "short", 2, NumberKind::Int},
    {"i32", "int32", "Int", "int", 4, NumberKind::Int},
    {"i64", "int64", "Long", "long", 8, NumberKind::Int},
    {"f8_e4m3fn", "float8_e4m3fn", "Float8_e4m3fn", "Float8_e4m3fn", 1, NumberKind::Float},
    {"f8_e4m3fnuz", "float8_e4m3fnuz", "Float8_e4m3fnuz", "Float8_e4m3fnuz", 1, NumberKind::Float},
    {"f8_e5m2", "float8_e5m2", "Float8_e5m2", "Float8_e5m2", 1, NumberKind::Float},
    {"f8_e5m2fnuz", "float8_e5m2fnuz", "Float8_e5m2fnuz", "Float8_e5m2fnuz", 1, NumberKind::Float},
    {"f8_e8m0fnu", "float8_e8m0fnu", "Float8_e8m0fnu", "Float8_e8m0fnu", 1, NumberKind::Float},
    {"f16", "float16", "Half", "c10::Half", 2, NumberKind::Float},
    {"bf16", "bfloat16", "BFloat16", "c10::BFloat16", 2, NumberKind::Float},
    {"f32", "float32", "Float", "float", 4, NumberKind::Float},
    {"f64", "float64", "Double", "double", 8, NumberKind::Float},
    {"c32", "complex32", "ComplexHalf", "ComplexHalf", 4, NumberKind::Complex},
    {"c64", "complex64", "ComplexFloat", "c10::complex<float>", 8, NumberKind::Complex},
    {"c128", "complex128", "ComplexDouble", "c10::complex<double>", 16, NumberKind::Complex},
}};

static_assert(kInfo.back().torch_name == "complex128", "a row for each DType, in the order of the enum");

const Info& info(DType t) { return kInfo[static_cast<size_t>(t)]; }

thread_local DType current_default = DType::f32;

bool is_unsigned_beyond_byte(DType t) { return is_unsigned(t) && t != DType::u8; }

int float_rank(DType t) {
  switch (t) {
    case DType::f16:
    case DType::bf16: return 0;
    case DType::f32: return 1;
    default: return 2;
  }
}

DType promote_floats(DType a, DType b) {
  if (float_rank(a) == 0 && float_rank(b) == 0) return DType::f32;  // f16 with bf16
  return float_rank(a) > float_rank(b) ? a : b;
}

DType promote_integers(DType a, DType b) {
  if (a == DType::u8 || b == DType::u8) {
    DType other = a == DType::u8 ? b : a;
    return other == DType::i8 ? DType::i16 : other;
  }
  return itemsize(a) > itemsize(b) ? a : b;
}

}  // namespace

std::string_view short_name(DType t) { return info(t).short_name; }
std::string_view torch_name(DType t) { return info(t).torch_name; }
std::string_view scalar_type_name(DType t) { return info(t).scalar_type_name; }
std::string_view cpp_type_name(DType t) { return info(t).cpp_type_name; }

std::optional<DType> dtype_from_short_name(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (kInfo[i].short_name == name) return static_cast<DType>(i);
  return std::nullopt;
}

std::optional<DType> dtype_from_torch_name(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (kInfo[i].torch_name == name) return static_cast<DType>(i);
  return std::nullopt;
}

int itemsize(DType t) { return info(t).size; }
NumberKind number_kind(DType t) { return info(t).kind; }
bool is_float8(DType t) { return t >= DType::f8e4m3fn && t <= DType::f8e8m0fnu; }

DType compute_type(DType t) {
  if (t == DType::f16 || t == DType::bf16 || is_float8(t)) return DType::f32;
  if (t == DType::c32) return DType::c64;
  return t;
}

DType real_part_type(DType t) {
  switch (t) {
    case DType::c32: return DType::f16;
    case DType::c64: return DType::f32;
    case DType::c128: return DType::f64;
    default: return t;
  }
}

DType complex_type_of(DType t) {
  switch (t) {
    case DType::f16: return DType::c32;
    case DType::f64: return DType::c128;
    case DType::c32:
    case DType::c64:
    case DType::c128: return t;
    default: return DType::c64;
  }
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  THUNDER_CHECK(!is_float8(a) && !is_float8(b), Runtime, "promote_types",
                "Promotion for Float8 Types is not supported, attempted to promote ", torch_name(a), " and ",
                torch_name(b));
  NumberKind ka = number_kind(a), kb = number_kind(b);
  THUNDER_CHECK((!is_unsigned_beyond_byte(a) && !is_unsigned_beyond_byte(b)) || is_floating(a) || is_floating(b),
                Runtime, "promote_types",
                "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote ", torch_name(a),
                " and ", torch_name(b));
  if (ka == NumberKind::Complex || kb == NumberKind::Complex) {
    DType real = promote_types(real_part_type(a), real_part_type(b));
    if (!is_floating(real)) real = DType::f32;
    // bf16 with complex32 has no complex bf16 to go to.
    return real == DType::f16 ? DType::c32 : complex_type_of(real);
  }
  if (ka == NumberKind::Float && kb == NumberKind::Float) return promote_floats(a, b);
  if (ka == NumberKind::Float) return a;
  if (kb == NumberKind::Float) return b;
  if (ka == NumberKind::Bool) return b;
  if (kb == NumberKind::Bool) return a;
  return promote_integers(a, b);
}

namespace {

// Of two categories of operands; nothing for one that is empty.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || number_kind(*higher) >= number_kind(*lower)) return higher;
  if (!is_floating(*higher)) return is_complex(*lower) ? lower : promote_types(*higher, *lower);
  // Complex numbers bring their kind; the width stays that of the floats.
  THUNDER_CHECK(!is_float8(*higher), Runtime, "result_type", "Unknown Complex ScalarType for ", torch_name(*higher));
  return complex_type_of(*higher);
}

}  // namespace

DType result_type(const std::vector<PromotionOperand>& operands, DType default_dtype) {
  std::optional<DType> results[3];
  for (const PromotionOperand& o : operands) {
    DType t = o.dtype;
    if (o.category == PromotionOperand::WrappedNumber) {
      if (is_complex(t)) t = complex_type_of(default_dtype);
      else if (is_floating(t)) t = default_dtype;
    }
    std::optional<DType>& r = results[o.category];
    r = r ? promote_types(*r, t) : t;
  }
  std::optional<DType> r = combine(results[0], combine(results[1], results[2]));
  THUNDER_CHECK(r.has_value(), Runtime, "result_type", "at least one operand is needed");
  return *r;
}

DType default_dtype() { return current_default; }
void set_default_dtype(DType t) { current_default = t; }

}  // namespace thunder
