// A matrix product as BLAS sees it, from the layouts of tensors.
//
// BLAS stores matrices by column.  A tensor stored by row is its transpose stored by column, so the product of two
// tensors is computed as the transposed product of the transposed operands: out^T = b^T a^T, with no copy of either.
#pragma once

#include <cstdint>
#include <optional>

#include "core/type.h"

namespace thunder {

/// out(m, n) = first(m, k) second(k, n), all stored by column.  `first` is the tensor product's second operand,
/// `second` its first.
struct MatrixProduct {
  DType dtype = DType::f32;  ///< of the result unless it is wide, and of what is multiplied unless that is float8
  int64_t m = 0, n = 0, k = 0;
  bool transpose_first = false, transpose_second = false;  ///< stored as (k, m), as (n, k)
  int64_t first_stride = 0, second_stride = 0;             ///< from column to column; out's is m
  bool bias = false;                                       ///< m numbers, added to every column
  /// Operands in float8, each with one scale, both stored with the dimension that is summed up along memory.
  struct Float8 {
    DType first = DType::f8e4m3fn, second = DType::f8e4m3fn;
    bool fast = false;  ///< sums may have fewer digits than float32

    auto operator<=>(const Float8&) const = default;
  };
  std::optional<Float8> float8 = {};
  bool wide = false;      ///< the result is in float32
  int32_t left_free = 0;  ///< multiprocessors of the device that the kernel leaves to others beside it

  auto operator<=>(const MatrixProduct&) const = default;
};

/// a[..., k] times b[k, m]; with `by_rows_of_b`, times the transpose of b[m, k].  The result is contiguous.  Nothing if
/// a dimension is empty or not known, b is no matrix, or an operand does not lie in memory as BLAS reads it.
std::optional<MatrixProduct> matrix_product(const TensorType& a, const TensorType& b, bool by_rows_of_b);

/// The same for float8 matrices, e4m3 or one of the two e5m2.  Nothing where cuBLASLt has no kernels: another form than
/// MatrixProduct::Float8 says, or sizes that 16 does not divide (a's rows may be any number).
std::optional<MatrixProduct> float8_product(const TensorType& a, const TensorType& b, DType out, bool fast);

}  // namespace thunder
