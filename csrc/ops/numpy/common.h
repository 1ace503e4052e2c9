// What records of the numpy language share: NumPy 2's type promotion, and axes.
//
// Two arrays promote by their dtypes alone, 0-d ones too; a Python number is weak and only brings its kind.  Integers
// become the smallest float that holds them where a function needs floats.  Bfloat16, which NumPy has not, goes with
// integers as float16 does.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/builder.h"
#include "core/error.h"
#include "core/op.h"

namespace thunder::ops::numpy {

/// numpy.promote_types(a, b).
DType promoted_type(DType a, DType b);
/// numpy.result_type of tensors and Python numbers.
DType result_type(const ArgList& operands);

/// The dtype that a function computes in, given the result type of its operands.
enum class Rule {
  Same,      ///< the result type
  Floating,  ///< integers become the smallest float that holds them (exp)
  Real,      ///< as above, and complex numbers are refused (arctan2)
  Double,    ///< integers become float64 (divide, mean)
  Number,    ///< booleans become int8 (power, floor_divide)
};
DType apply(Rule rule, DType t);
/// That of an operator's operands.  Error (Type) where it is not defined for them.
DType computed_type(const Args& a, Rule rule);
/// The dtype in which integers are summed: int64, or uint64 for unsigned ones.
DType sum_type(DType t);

/// The operands in dtype `t`, broadcast, on one device; at least one is a tensor.  Error (Value) for a Python integer
/// that `t` cannot hold.
ArgList operands(Builder& b, std::string_view op, const ArgList& given, DType t);
/// As above, numbers as 0-d tensors.
ArgList tensor_operands(Builder& b, std::string_view op, const ArgList& given, DType t);
/// The dtype of a `dtype` argument, or `otherwise`.
DType dtype_or(const Args& a, DType otherwise);

/// Whether each element, or a number, is not zero.
Arg truth(Builder& b, const Arg& x);

/// The axes that `axis` (an int, several, or None for all) names, sorted.
std::vector<int64_t> axes(const Args& a, const Expr& x);
/// One axis, counted from 0.
int64_t one_axis(const Args& a, std::string_view name, int64_t rank);
/// In row-major order, with one dimension.
Expr flat(const Expr& x);
/// For reductions: with the reduced axes of size 1 if `keepdims`.
Arg maybe_keep(Builder& b, const Args& a, const Arg& reduced, const std::vector<int64_t>& axes);
/// Error (NotImplemented) for another order than 'C'.
void check_order(const Args& a);

/// The name of a primitive as a template argument.
struct Prim {
  char text[32] = {};
  template <size_t N>
  consteval Prim(const char (&name)[N]) {
    std::copy_n(name, N, text);
  }
};

/// The body of a function that promotes, broadcasts, and is a primitive.
template <Prim prim, Rule rule>
Arg ufunc(Builder& b, const Args& a) {
  return b.call_named(prim.text, operands(b, a.op().schema.name, a.list(), computed_type(a, rule)), {});
}

/// Likewise of one that is an operator of the torch language, which may want tensors.
template <Prim op, Rule rule>
Arg tensor_ufunc(Builder& b, const Args& a) {
  return b.call_named(op.text, tensor_operands(b, a.op().schema.name, a.list(), computed_type(a, rule)), {});
}

/// The body of a function that is an operator of the torch language, with the same arguments in the same order.
template <Prim op>
Arg same_as(Builder& b, const Args& a) {
  return b.call_named(op.text, a.list(), {});
}

}  // namespace thunder::ops::numpy
