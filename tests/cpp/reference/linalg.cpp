// Singular values by Jacobi's rotations.
#include <algorithm>
#include <numeric>

#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

using Column = std::vector<double>;
using Matrix = std::vector<Column>;  // by columns

double dot(const Column& a, const Column& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

void rotate(Column& a, Column& b, double c, double s) {
  for (size_t i = 0; i < a.size(); ++i) {
    double x = a[i], y = b[i];
    a[i] = c * x - s * y;
    b[i] = s * x + c * y;
  }
}

// Rotates pairs of columns until all are orthogonal; `v` takes the same rotations.
void orthogonalise(Matrix& u, Matrix& v) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool done = true;
    for (size_t p = 0; p < u.size(); ++p)
      for (size_t q = p + 1; q < u.size(); ++q) {
        double pp = dot(u[p], u[p]), qq = dot(u[q], u[q]), pq = dot(u[p], u[q]);
        if (std::fabs(pq) <= 1e-17 * std::sqrt(pp * qq) || pq == 0) continue;
        done = false;
        double zeta = (qq - pp) / (2 * pq), t = (zeta >= 0 ? 1 : -1) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
        double c = 1 / std::sqrt(1 + t * t);
        rotate(u[p], u[q], c, c * t);
        rotate(v[p], v[q], c, c * t);
      }
    if (done) return;
  }
}

// Columns that are zero, or missing up to `count`, become unit vectors orthogonal to the others.
void complete(Matrix& columns, const std::vector<bool>& zero, size_t length, size_t count) {
  std::vector<bool> missing = zero;
  missing.resize(count, true);
  columns.resize(count, Column(length, 0));
  for (size_t j = 0; j < count; ++j)
    for (size_t e = 0; missing[j] && e < length; ++e) {
      Column x(length, 0);
      x[e] = 1;
      for (int twice = 0; twice < 2; ++twice)
        for (size_t k = 0; k < count; ++k) {
          if (missing[k]) continue;
          double along = dot(x, columns[k]);
          for (size_t i = 0; i < length; ++i) x[i] -= along * columns[k][i];
        }
      double norm = std::sqrt(dot(x, x));
      if (norm < 1e-6) continue;
      for (double& value : x) value /= norm;
      columns[j] = x;
      missing[j] = false;
    }
}

struct Decomposition {
  Matrix u, v;
  std::vector<double> s;
};

// Of m columns of length n, m <= n.
Decomposition decompose(Matrix a, bool full) {
  size_t k = a.size(), n = k ? a[0].size() : 0;
  Matrix v(k, Column(k, 0));
  for (size_t i = 0; i < k; ++i) v[i][i] = 1;
  orthogonalise(a, v);
  std::vector<size_t> order(k);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return dot(a[x], a[x]) > dot(a[y], a[y]); });
  Decomposition d;
  std::vector<bool> zero;
  for (size_t j : order) {
    double s = std::sqrt(dot(a[j], a[j]));
    d.s.push_back(s);
    zero.push_back(s == 0);
    for (double& value : a[j]) value = s == 0 ? 0 : value / s;
    d.u.push_back(a[j]);
    d.v.push_back(v[j]);
  }
  complete(d.u, zero, n, full ? n : k);
  return d;
}

Datum svd(const Inputs& in) {
  const Array& a = in.tensor("A");
  if (is_complex(a.dtype)) throw Undefined("the singular values of a complex matrix");
  bool full = in.flag("full_matrices");
  int64_t m = a.shape[a.shape.size() - 2], n = a.shape.back(), k = std::min(m, n), rows = full ? m : k,
          columns = full ? n : k;
  Shape batch(a.shape.begin(), a.shape.end() - 2);
  auto shaped = [&](std::initializer_list<int64_t> last) {
    Shape s = batch;
    s.insert(s.end(), last);
    return make_array(a.dtype, a.device, s);
  };
  if (k == 0) throw Undefined("the singular values of an empty matrix");
  ArrayPtr u = shaped({m, rows}), s = shaped({k}), vh = shaped({columns, n});
  for (int64_t matrix = 0; matrix < count(batch); ++matrix) {
    bool tall = m >= n;  // else the transpose is
    Matrix x(static_cast<size_t>(k), Column(static_cast<size_t>(std::max(m, n))));
    for (size_t j = 0; j < x.size(); ++j)
      for (size_t i = 0; i < x[j].size(); ++i) {
        size_t row = tall ? i : j, column = tall ? j : i;
        x[j][i] = a.data[static_cast<size_t>(matrix * m * n) + row * static_cast<size_t>(n) + column].re;
      }
    Decomposition d = decompose(std::move(x), full);
    const Matrix &left = tall ? d.u : d.v, &right = tall ? d.v : d.u;
    auto put = [&](const ArrayPtr& out, int64_t size, size_t at, double value) {
      out->data[static_cast<size_t>(matrix * size) + at] = in.store(a.dtype, Element::real(value));
    };
    for (size_t i = 0; i < static_cast<size_t>(m); ++i)
      for (size_t j = 0; j < static_cast<size_t>(rows); ++j)
        put(u, m * rows, i * static_cast<size_t>(rows) + j, left[j][i]);
    for (size_t j = 0; j < static_cast<size_t>(k); ++j) put(s, k, j, d.s[j]);
    for (size_t i = 0; i < static_cast<size_t>(columns); ++i)
      for (size_t j = 0; j < static_cast<size_t>(n); ++j)
        put(vh, columns * n, i * static_cast<size_t>(n) + j, right[i][j]);
  }
  return Datum::sequence({u, s, vh});
}

}  // namespace

void add_linalg(Kernels& k) { k["torch.linalg_svd"] = svd; }

}  // namespace thunder::reference
