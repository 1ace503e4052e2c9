// Layouts of tensors as BLAS reads them: the product by BLAS's rules against the product by the tensors' own indices.
#include "runtime/kernels/matrix_product.h"

#include <doctest.h>

#include <vector>

namespace thunder::test {
namespace {

TensorType tensor(std::vector<int64_t> shape, std::vector<int64_t> strides, DType t = DType::bf16) {
  TensorType out;
  out.dtype = t;
  for (int64_t n : shape) out.shape.push_back(Dim(n));
  for (int64_t s : strides) out.strides.push_back(Dim(s));
  return out;
}

// Storage that is different everywhere.
double at(int64_t place, int64_t seed) { return static_cast<double>((place * 7919 + seed) % 1009) - 500; }

int64_t place_in(const TensorType& t, size_t leading, int64_t row, int64_t col) {
  int64_t place = col * t.strides.back().constant();
  for (size_t i = leading; i-- > 0;) {
    place += row % t.shape[i].constant() * t.strides[i].constant();
    row /= t.shape[i].constant();
  }
  return place;
}

// As the BLAS standard defines gemm.
double by_blas(const MatrixProduct& p, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t l = 0; l < p.k; ++l) {
    const int64_t first = p.transpose_first ? l + i * p.first_stride : i + l * p.first_stride;
    const int64_t second = p.transpose_second ? j + l * p.second_stride : l + j * p.second_stride;
    sum += at(first, 2) * at(second, 1);
  }
  return sum;
}

void check(const TensorType& a, const TensorType& b, bool by_rows_of_b) {
  const std::optional<MatrixProduct> p = matrix_product(a, b, by_rows_of_b);
  REQUIRE(p);
  const size_t leading = a.shape.size() - 1;
  int64_t rows = 1;
  for (size_t i = 0; i < leading; ++i) rows *= a.shape[i].constant();
  CHECK(p->n == rows);
  CHECK(p->k == a.shape.back().constant());
  CHECK(p->m == b.shape[by_rows_of_b ? 0 : 1].constant());
  // BLAS refuses a distance of columns that is less than a column.
  CHECK(p->first_stride >= (p->transpose_first ? p->k : p->m));
  CHECK(p->second_stride >= (p->transpose_second ? p->n : p->k));
  for (int64_t row = 0; row < p->n; ++row)
    for (int64_t col = 0; col < p->m; ++col) {
      double expected = 0;
      for (int64_t l = 0; l < p->k; ++l)
        expected +=
            at(place_in(a, leading, row, l), 1) * at(by_rows_of_b ? place_in(b, 1, col, l) : place_in(b, 1, l, col), 2);
      REQUIRE(by_blas(*p, col, row) == expected);
    }
}

TEST_CASE("matrix product: every layout of two matrices that BLAS can read") {
  struct Layout {
    int64_t row, col;
  };
  for (const auto& [m, k, n] :
       std::vector<std::array<int64_t, 3>>{{3, 4, 5}, {1, 4, 5}, {3, 1, 5}, {3, 4, 1}, {1, 1, 5}, {1, 1, 1}})
    for (Layout a : {Layout{k, 1}, Layout{1, m}, Layout{k + 3, 1}, Layout{1, m + 2}})
      for (bool by_rows : {false, true}) {
        const int64_t rows = by_rows ? n : k, cols = by_rows ? k : n;
        for (Layout b : {Layout{cols, 1}, Layout{1, rows}, Layout{cols + 8, 1}, Layout{1, rows + 1}})
          check(tensor({m, k}, {a.row, a.col}), tensor({rows, cols}, {b.row, b.col}), by_rows);
      }
}

TEST_CASE("matrix product: leading dimensions that lie at one distance are one") {
  const TensorType w = tensor({5, 4}, {4, 1});
  check(tensor({2, 3, 4}, {12, 4, 1}), w, true);
  check(tensor({2, 3, 4}, {30, 10, 1}), w, true);        // rows of a wider tensor
  check(tensor({2, 1, 3, 4}, {12, 99, 4, 1}), w, true);  // of one element: its stride means nothing
  check(tensor({3, 2, 4}, {2, 1, 6}), w, true);          // a transposed view
}

TEST_CASE("matrix product: what BLAS cannot read is refused") {
  const TensorType a = tensor({3, 4}, {4, 1}), b = tensor({4, 5}, {5, 1});
  CHECK(matrix_product(a, b, false));
  CHECK(!matrix_product(tensor({3, 4}, {8, 2}), b, false));         // no dimension is dense
  CHECK(!matrix_product(tensor({3, 4}, {0, 1}), b, false));         // expanded
  CHECK(!matrix_product(tensor({3, 4}, {3, 1}), b, false));         // rows overlap
  CHECK(!matrix_product(tensor({2, 3, 4}, {4, 8, 1}), b, false));   // leading dimensions in another order
  CHECK(!matrix_product(tensor({4}, {1}), b, false));               // a vector
  CHECK(!matrix_product(a, tensor({2, 4, 5}, {20, 5, 1}), false));  // a batch
  CHECK(!matrix_product(tensor({0, 4}, {4, 1}), b, false));
  CHECK(!matrix_product(a, tensor({4, 0}, {1, 1}), false));
  CHECK(!matrix_product(a, tensor({4, 5}, {5, 1}, DType::f16), false));
}

}  // namespace
TEST_CASE("matrix product: float8 operands have what is summed up along memory, in sizes that 16 divides") {
  const DType e4m3 = DType::f8e4m3fn, e5m2 = DType::f8e5m2, out = DType::bf16;
  const TensorType a = tensor({5, 32}, {32, 1}, e5m2), b = tensor({32, 48}, {1, 32}, e4m3);
  const std::optional<MatrixProduct> p = float8_product(a, b, out, true);
  REQUIRE(p);
  CHECK(p->dtype == out);
  CHECK(p->float8 == MatrixProduct::Float8{e4m3, e5m2, true});
  CHECK((p->m == 48 && p->n == 5 && p->k == 32 && p->transpose_first && !p->transpose_second));
  CHECK(!matrix_product(a, b, false));
  // By rows where it must be by columns, and the other way round.
  CHECK(!float8_product(a, tensor({32, 48}, {48, 1}, e4m3), out, true));
  CHECK(!float8_product(tensor({5, 32}, {1, 5}, e4m3), b, out, true));
  CHECK(!float8_product(tensor({5, 24}, {24, 1}, e4m3), tensor({24, 48}, {1, 24}, e4m3), out, true));
  CHECK(!float8_product(a, tensor({32, 40}, {1, 32}, e4m3), out, true));
  CHECK(!float8_product(a, tensor({32, 48}, {1, 32}, e5m2), out, true));
  CHECK(!float8_product(tensor({5, 32}, {32, 1}), tensor({32, 48}, {1, 32}), out, true));
  CHECK(!float8_product(a, b, DType::f64, true));
}

}  // namespace thunder::test
