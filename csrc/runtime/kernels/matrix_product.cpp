#include "runtime/kernels/matrix_product.h"

#include <algorithm>
#include <utility>

namespace thunder {
namespace {

struct Matrix {
  int64_t rows = 1, cols = 1, row_stride = 0, col_stride = 0;

  Matrix transposed() const { return {cols, rows, col_stride, row_stride}; }
};

// Leading dimensions as one, where their elements lie at one distance.
std::optional<Matrix> flattened(const TensorType& t) {
  const size_t rank = t.shape.size();
  if (rank < 2 || t.strides.size() != rank) return std::nullopt;
  for (size_t i = 0; i < rank; ++i)
    if (!t.shape[i].is_constant() || !t.strides[i].is_constant() || t.shape[i].constant() < 1) return std::nullopt;
  Matrix out{1, t.shape[rank - 1].constant(), 0, t.strides[rank - 1].constant()};
  for (size_t i = rank - 1; i-- > 0;) {
    const int64_t size = t.shape[i].constant(), stride = t.strides[i].constant();
    if (size == 1) continue;
    if (out.rows == 1) out.row_stride = stride;
    else if (stride != out.row_stride * out.rows) return std::nullopt;
    out.rows *= size;
  }
  return out;
}

// How the transpose of a matrix is stored by column: as it is (the matrix is stored by row), or transposed itself.
struct Stored {
  bool transpose = false;
  int64_t stride = 0;
};
std::optional<Stored> stored(const Matrix& x) {
  if ((x.col_stride == 1 || x.cols == 1) && (x.row_stride >= x.cols || x.rows == 1))
    return Stored{false, x.rows == 1 ? x.cols : x.row_stride};
  if ((x.row_stride == 1 || x.rows == 1) && (x.col_stride >= x.rows || x.cols == 1))
    return Stored{true, x.cols == 1 ? x.rows : x.col_stride};
  return std::nullopt;
}

}  // namespace

std::optional<MatrixProduct> matrix_product(const TensorType& a, const TensorType& b, bool by_rows_of_b) {
  if (b.shape.size() != 2 || a.dtype != b.dtype) return std::nullopt;
  const std::optional<Matrix> x = flattened(a);
  std::optional<Matrix> y = flattened(b);
  if (!x || !y) return std::nullopt;
  if (by_rows_of_b) y = y->transposed();
  if (x->cols != y->rows) return std::nullopt;
  const std::optional<Stored> first = stored(*y), second = stored(*x);
  if (!first || !second) return std::nullopt;
  return MatrixProduct{a.dtype,           y->cols,       x->rows,        x->cols, first->transpose,
                       second->transpose, first->stride, second->stride, false};
}

std::optional<MatrixProduct> float8_product(const TensorType& a, const TensorType& b, DType out, bool fast) {
  constexpr int64_t kUnit = 16;
  const auto is_float8 = [](DType t) { return t == DType::f8e4m3fn || t == DType::f8e5m2; };
  const bool both_wide = a.dtype == DType::f8e5m2 && b.dtype == DType::f8e5m2;
  if (!is_float8(a.dtype) || !is_float8(b.dtype) || both_wide) return std::nullopt;
  if (out != DType::bf16 && out != DType::f16 && out != DType::f32) return std::nullopt;
  TensorType alike = a;
  alike.dtype = b.dtype;
  std::optional<MatrixProduct> p = matrix_product(alike, b, false);
  if (!p || !p->transpose_first || p->transpose_second) return std::nullopt;
  for (int64_t n : {p->m, p->k, p->first_stride, p->second_stride})
    if (n % kUnit != 0) return std::nullopt;
  p->dtype = out;
  p->float8 = MatrixProduct::Float8{b.dtype, a.dtype, fast};
  return p;
}

}  // namespace thunder
