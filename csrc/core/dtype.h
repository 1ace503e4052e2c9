// Data types: PyTorch's, with their short names in printed traces ("f32"), sizes and promotion.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

namespace thunder {

// clang-format off
enum class DType : uint8_t {
  boolean, u8, u16, u32, u64, i8, i16, i32, i64,
  f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0fnu, f16, bf16, f32, f64,
  c32, c64, c128,
};
// clang-format on
inline constexpr int kNumDTypes = 21;

/// What kind of number: the lattice on which type promotion works.
enum class NumberKind : uint8_t { Bool, Int, Float, Complex };

std::string_view short_name(DType t);        ///< "f32", as annotations in traces print it.
std::string_view torch_name(DType t);        ///< "float32", as in torch.float32.
std::string_view scalar_type_name(DType t);  ///< "Float", "Long", as most of PyTorch's messages spell a dtype.
std::string_view cpp_type_name(DType t);     ///< "float", "c10::BFloat16", as its messages about matrix products do.
std::optional<DType> dtype_from_short_name(std::string_view name);
std::optional<DType> dtype_from_torch_name(std::string_view name);

int itemsize(DType t);  ///< bytes an element
NumberKind number_kind(DType t);
inline bool is_bool(DType t) { return t == DType::boolean; }
inline bool is_unsigned(DType t) { return t >= DType::u8 && t <= DType::u64; }
inline bool is_integral(DType t) { return number_kind(t) == NumberKind::Int; }  ///< without bool
inline bool is_floating(DType t) { return number_kind(t) == NumberKind::Float; }
inline bool is_complex(DType t) { return number_kind(t) == NumberKind::Complex; }
/// Floating or complex: those that autograd differentiates.
inline bool is_inexact(DType t) { return is_floating(t) || is_complex(t); }
bool is_float8(DType t);
/// f16, bf16 and float8 types compute in f32 inside one operation, c32 in c64; others in themselves.
DType compute_type(DType t);
DType real_part_type(DType t);   ///< c64 -> f32; others unchanged
DType complex_type_of(DType t);  ///< f32 -> c64; complex unchanged

/// torch.promote_types(a, b).  As in PyTorch float8 types do not promote (Error, Runtime), u16 to u64 only with floats.
DType promote_types(DType a, DType b);

/// One operand of an operation, as far as torch.result_type is concerned.
struct PromotionOperand {
  DType dtype;
  enum Category { DimTensor, ZeroDimTensor, WrappedNumber } category;
};
/// torch.result_type over any number of operands: dimensioned tensors first, then 0-d tensors, then Python numbers;
/// a lower category only counts if its number kind is higher (c128 makes f32 c64).  `default_dtype`: of a Python float.
DType result_type(const std::vector<PromotionOperand>& operands, DType default_dtype);

/// torch.get_default_dtype() as the acquisition found it: set for the length of one compilation.
DType default_dtype();
void set_default_dtype(DType t);

inline std::ostream& operator<<(std::ostream& out, DType t) { return out << "torch." << torch_name(t); }

}  // namespace thunder
