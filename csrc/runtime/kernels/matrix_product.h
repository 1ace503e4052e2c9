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
  DType dtype = DType::f32;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_first = false, transpose_second = false;  ///< stored as (k, m), as (n, k)
  int64_t first_stride = 0, second_stride = 0;             ///< from column to column; out's is m
  bool bias = false;                                       ///< m numbers, added to every column

  auto operator<=>(const MatrixProduct&) const = default;
};

/// a[..., k] times b[k, m]; with `by_rows_of_b`, times the transpose of b[m, k].  The result is contiguous.  Nothing if
/// a dimension is empty or not known, b is no matrix, or an operand does not lie in memory as BLAS reads it.
std::optional<MatrixProduct> matrix_product(const TensorType& a, const TensorType& b, bool by_rows_of_b);

}  // namespace thunder
