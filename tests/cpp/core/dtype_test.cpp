// Data types: names, sizes, kinds, promotion.
#include "core/dtype.h"

#include <doctest.h>

#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>

#include "core/error.h"

namespace thunder {
namespace {

std::vector<DType> all_types() {
  std::vector<DType> out;
  for (int i = 0; i < kNumDTypes; ++i) out.push_back(static_cast<DType>(i));
  return out;
}

TEST_CASE("dtype: each has two names of its own, which lead back to it") {
  std::set<std::string_view> short_names, torch_names;
  for (DType t : all_types()) {
    CAPTURE(t);
    CHECK(dtype_from_short_name(short_name(t)) == t);
    CHECK(dtype_from_torch_name(torch_name(t)) == t);
    CHECK(short_names.insert(short_name(t)).second);
    CHECK(torch_names.insert(torch_name(t)).second);
  }
  CHECK(short_name(DType::f32) == "f32");
  CHECK(torch_name(DType::f32) == "float32");
  CHECK(torch_name(DType::boolean) == "bool");
  CHECK(cat(DType::bf16) == "torch.bfloat16");
}

TEST_CASE("dtype: a name of the other kind, or of nothing, is none") {
  for (const char* name : {"", "float32", "torch.float32", "F32", "f32 ", "f128"})
    CHECK(dtype_from_short_name(name) == std::nullopt);
  for (const char* name : {"", "f32", "torch.float32", "Float32", "float", "float128"})
    CHECK(dtype_from_torch_name(name) == std::nullopt);
}

TEST_CASE("dtype: the size is that in the name") {
  for (DType t : all_types()) {
    CAPTURE(t);
    const std::string name(torch_name(t));
    const size_t digit = name.find_first_of("0123456789");
    CHECK(itemsize(t) == (digit == std::string::npos ? 1 : std::stoi(name.substr(digit)) / 8));
  }
}

TEST_CASE("dtype: each is of one kind") {
  for (DType t : all_types()) {
    CAPTURE(t);
    CHECK(is_bool(t) + is_integral(t) + is_floating(t) + is_complex(t) == 1);
    CHECK(is_inexact(t) == (is_floating(t) || is_complex(t)));
    CHECK(is_float8(t) == (std::string(torch_name(t)).find("float8") == 0));
  }
  CHECK(number_kind(DType::boolean) == NumberKind::Bool);
  CHECK(number_kind(DType::u64) == NumberKind::Int);
  CHECK(number_kind(DType::f8e8m0fnu) == NumberKind::Float);
  CHECK(number_kind(DType::bf16) == NumberKind::Float);
  CHECK(number_kind(DType::c32) == NumberKind::Complex);
}

TEST_CASE("compute_type: narrow floats compute in f32, what is as wide or no float in itself") {
  for (DType t : {DType::f16, DType::bf16}) CHECK(compute_type(t) == DType::f32);
  for (DType t : {DType::f32, DType::f64, DType::c64, DType::c128, DType::i8, DType::i64, DType::boolean})
    CHECK(compute_type(t) == t);
}

TEST_CASE("dtype: a complex type and that of its parts") {
  CHECK(real_part_type(DType::c32) == DType::f16);
  CHECK(real_part_type(DType::c64) == DType::f32);
  CHECK(real_part_type(DType::c128) == DType::f64);
  for (DType t : {DType::f32, DType::bf16, DType::i32, DType::boolean}) CHECK(real_part_type(t) == t);
  for (DType t : {DType::c32, DType::c64, DType::c128}) {
    CHECK(complex_type_of(t) == t);
    CHECK(complex_type_of(real_part_type(t)) == t);
    CHECK(itemsize(t) == 2 * itemsize(real_part_type(t)));
  }
}

// ---- promotion ------------------------------------------------------------------------------------------------------

constexpr DType kPromoted[] = {DType::boolean, DType::u8,  DType::i8,  DType::i16, DType::i32, DType::i64, DType::f16,
                               DType::bf16,    DType::f32, DType::f64, DType::c32, DType::c64, DType::c128};

TEST_CASE("promote_types: as torch.promote_types of PyTorch 2") {
  // A row for each type, from its own column on; the rest follows because promotion is symmetric.
  static constexpr const char* kRows[] = {
      "b8 ui8 i8 i16 i32 i64 f16 bf16 f32 f64 c32 c64 c128",
      "ui8 i16 i16 i32 i64 f16 bf16 f32 f64 c32 c64 c128",
      "i8 i16 i32 i64 f16 bf16 f32 f64 c32 c64 c128",
      "i16 i32 i64 f16 bf16 f32 f64 c32 c64 c128",
      "i32 i64 f16 bf16 f32 f64 c32 c64 c128",
      "i64 f16 bf16 f32 f64 c32 c64 c128",
      "f16 f32 f32 f64 c32 c64 c128",
      "bf16 f32 f64 c64 c64 c128",
      "f32 f64 c64 c64 c128",
      "f64 c128 c128 c128",
      "c32 c64 c128",
      "c64 c128",
      "c128",
  };
  for (size_t i = 0; i < std::size(kPromoted); ++i) {
    std::istringstream row(kRows[i]);
    for (size_t j = i; j < std::size(kPromoted); ++j) {
      std::string expected;
      REQUIRE((row >> expected));
      CAPTURE(kPromoted[i]);
      CAPTURE(kPromoted[j]);
      CHECK(short_name(promote_types(kPromoted[i], kPromoted[j])) == expected);
      CHECK(short_name(promote_types(kPromoted[j], kPromoted[i])) == expected);
    }
  }
}

TEST_CASE("dtype: the names in PyTorch's messages") {
  std::set<std::string_view> names;
  for (DType t : all_types()) CHECK(names.insert(scalar_type_name(t)).second);
  CHECK(scalar_type_name(DType::i64) == "Long");
  CHECK(scalar_type_name(DType::bf16) == "BFloat16");
  CHECK(cpp_type_name(DType::i8) == "signed char");
  CHECK(cpp_type_name(DType::f16) == "c10::Half");
  CHECK(cpp_type_name(DType::u16) == "UInt16");
}

TEST_CASE("dtype: unsigned integers") {
  for (DType t : all_types()) CHECK(is_unsigned(t) == torch_name(t).starts_with("uint"));
}

TEST_CASE("promote_types: wide unsigned integers promote with themselves and floats alone") {
  for (DType t : {DType::u16, DType::u32, DType::u64}) {
    CHECK(promote_types(t, t) == t);
    CHECK(promote_types(t, DType::f16) == DType::f16);
    CHECK(promote_types(DType::f64, t) == DType::f64);
    for (DType other : {DType::boolean, DType::u8, DType::i8, DType::i64, DType::c32, DType::c64, DType::c128}) {
      CHECK_THROWS_AS(promote_types(t, other), Error);
      CHECK_THROWS_AS(promote_types(other, t), Error);
    }
  }
  CHECK_THROWS_WITH_AS(promote_types(DType::u16, DType::u32),
                       "[promote_types] Promotion for uint16, uint32, uint64 types is not supported, attempted to "
                       "promote uint16 and uint32",
                       Error);
  CHECK_THROWS_WITH_AS(promote_types(DType::i32, DType::u16),
                       "[promote_types] Promotion for uint16, uint32, uint64 types is not supported, attempted to "
                       "promote int32 and uint16",
                       Error);
}

TEST_CASE("promote_types: float8 types promote with nothing but themselves") {
  for (DType t : all_types()) {
    if (!is_float8(t)) continue;
    for (DType other : all_types()) {
      CAPTURE(t);
      CAPTURE(other);
      if (t == other) CHECK(promote_types(t, other) == t);
      else CHECK_THROWS_AS(promote_types(t, other), Error);
    }
  }
  try {
    promote_types(DType::f8e4m3fn, DType::f32);
    FAIL("nothing was thrown");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Runtime);
    CHECK(std::string(e.what()) ==
          "[promote_types] Promotion for Float8 Types is not supported, attempted to promote float8_e4m3fn and "
          "float32");
  }
}

using Operand = PromotionOperand;

TEST_CASE("result_type: a lower category counts only if its kind of number is higher") {
  const auto dim = [](DType t) { return Operand{t, Operand::DimTensor}; };
  const auto zero = [](DType t) { return Operand{t, Operand::ZeroDimTensor}; };
  const auto number = [](DType t) { return Operand{t, Operand::WrappedNumber}; };
  const auto result = [](const std::vector<Operand>& o) { return result_type(o, DType::f32); };
  CHECK(result({dim(DType::f32), zero(DType::f64)}) == DType::f32);
  CHECK(result({dim(DType::i8), zero(DType::i64)}) == DType::i8);
  CHECK(result({dim(DType::i8), zero(DType::f16)}) == DType::f16);
  CHECK(result({zero(DType::f64), dim(DType::bf16), number(DType::f64)}) == DType::bf16);
  CHECK(result({zero(DType::f64), number(DType::f64)}) == DType::f64);
  CHECK(result({zero(DType::i8), number(DType::i64)}) == DType::i8);
  CHECK(result({dim(DType::boolean), number(DType::i64)}) == DType::i64);
  CHECK(result({dim(DType::f64), number(DType::c128)}) == DType::c128);
  CHECK(result({dim(DType::bf16), number(DType::c128)}) == DType::c64);
  CHECK(result({dim(DType::u16), zero(DType::boolean), number(DType::i64)}) == DType::u16);
  CHECK(result({dim(DType::u16), zero(DType::c128)}) == DType::c128);
  CHECK_THROWS_WITH_AS(result({dim(DType::boolean), zero(DType::u16)}),
                       "[promote_types] Promotion for uint16, uint32, uint64 types is not supported, attempted to "
                       "promote bool and uint16",
                       Error);
  CHECK_THROWS_WITH_AS(result({dim(DType::f8e5m2), number(DType::c128)}),
                       "[result_type] Unknown Complex ScalarType for float8_e5m2", Error);
}

// Whether the results, of kPromoted in order, have these names.
void check_row(const std::string& names, const std::function<DType(DType)>& result) {
  std::istringstream row(names);
  for (DType t : kPromoted) {
    std::string expected;
    REQUIRE((row >> expected));
    CAPTURE(names);
    CAPTURE(t);
    CHECK(short_name(result(t)) == expected);
  }
}

TEST_CASE("result_type: a tensor with dimensions and one without, as torch.result_type of PyTorch 2") {
  static constexpr const char* kRows[] = {
      "b8 ui8 i8 i16 i32 i64 f16 bf16 f32 f64 c32 c64 c128",
      "ui8 ui8 ui8 ui8 ui8 ui8 f16 bf16 f32 f64 c32 c64 c128",
      "i8 i8 i8 i8 i8 i8 f16 bf16 f32 f64 c32 c64 c128",
      "i16 i16 i16 i16 i16 i16 f16 bf16 f32 f64 c32 c64 c128",
      "i32 i32 i32 i32 i32 i32 f16 bf16 f32 f64 c32 c64 c128",
      "i64 i64 i64 i64 i64 i64 f16 bf16 f32 f64 c32 c64 c128",
      "f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 c32 c32 c32",
      "bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 c64 c64 c64",
      "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 c64 c64 c64",
      "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128 c128",
      "c32 c32 c32 c32 c32 c32 c32 c32 c32 c32 c32 c32 c32",
      "c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64",
      "c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128",
  };
  for (size_t i = 0; i < std::size(kPromoted); ++i)
    check_row(kRows[i], [&](DType zero) {
      return result_type({{zero, Operand::ZeroDimTensor}, {kPromoted[i], Operand::DimTensor}}, DType::f32);
    });
}

TEST_CASE("result_type: a tensor and a Python number, as torch.result_type of PyTorch 2") {
  const std::tuple<DType, DType, const char*> rows[] = {
      {DType::i64, DType::f64, "i64 ui8 i8 i16 i32 i64 f16 bf16 f32 f64 c32 c64 c128"},
      {DType::f64, DType::f16, "f16 f16 f16 f16 f16 f16 f16 bf16 f32 f64 c32 c64 c128"},
      {DType::f64, DType::f32, "f32 f32 f32 f32 f32 f32 f16 bf16 f32 f64 c32 c64 c128"},
      {DType::f64, DType::f64, "f64 f64 f64 f64 f64 f64 f16 bf16 f32 f64 c32 c64 c128"},
      {DType::c128, DType::f16, "c32 c32 c32 c32 c32 c32 c32 c64 c64 c128 c32 c64 c128"},
      {DType::c128, DType::bf16, "c64 c64 c64 c64 c64 c64 c32 c64 c64 c128 c32 c64 c128"},
      {DType::c128, DType::f32, "c64 c64 c64 c64 c64 c64 c32 c64 c64 c128 c32 c64 c128"},
      {DType::c128, DType::f64, "c128 c128 c128 c128 c128 c128 c32 c64 c64 c128 c32 c64 c128"},
  };
  for (const auto& [number, by_default, names] : rows)
    for (auto category : {Operand::DimTensor, Operand::ZeroDimTensor})
      check_row(names, [&, number = number, by_default = by_default](DType t) {
        return result_type({{t, category}, {number, Operand::WrappedNumber}}, by_default);
      });
}

TEST_CASE("result_type: operands of one category promote, in any order") {
  for (auto category : {Operand::DimTensor, Operand::ZeroDimTensor}) {
    CHECK(result_type({{DType::f16, category}, {DType::bf16, category}}, DType::f32) == DType::f32);
    CHECK(result_type({{DType::i32, category}, {DType::u8, category}, {DType::i8, category}}, DType::f32) ==
          DType::i32);
  }
  CHECK(result_type({{DType::i64, Operand::WrappedNumber}, {DType::f64, Operand::WrappedNumber}}, DType::f32) ==
        DType::f32);
}

TEST_CASE("result_type: what a Python number means follows the default type") {
  const Operand number{DType::f64, Operand::WrappedNumber}, complex{DType::c128, Operand::WrappedNumber};
  for (DType t : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    CHECK(result_type({number}, t) == t);
    CHECK(result_type({number, {DType::i32, Operand::DimTensor}}, t) == t);
    CHECK(result_type({complex}, t) == complex_type_of(t));
  }
  CHECK(result_type({{DType::i64, Operand::WrappedNumber}}, DType::f64) == DType::i64);
  CHECK(result_type({{DType::boolean, Operand::WrappedNumber}}, DType::f64) == DType::boolean);
}

TEST_CASE("result_type: of no operand there is none") {
  CHECK_THROWS_WITH_AS(result_type({}, DType::f32), "[result_type] at least one operand is needed", Error);
}

TEST_CASE("default_dtype: float32 until it is set, for this thread") {
  CHECK(default_dtype() == DType::f32);
  set_default_dtype(DType::f64);
  CHECK(default_dtype() == DType::f64);
  DType other = DType::i8;
  std::thread([&] { other = default_dtype(); }).join();
  CHECK(other == DType::f32);
  set_default_dtype(DType::f32);
}

}  // namespace
}  // namespace thunder
