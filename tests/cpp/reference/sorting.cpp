// Sorting and selection along a dimension.
#include <algorithm>
#include <numeric>

#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// NaN is greater than all numbers, as torch sorts.
bool less(const Element& x, const Element& y, DType t) {
  if (is_exact(t)) return x.i < y.i;
  if (std::isnan(x.re)) return false;
  return std::isnan(y.re) || x.re < y.re;
}

// The order that sorts one line, equal elements staying in order.
std::vector<size_t> sorted_order(const std::vector<Element>& line, DType t, bool descending) {
  std::vector<size_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t p, size_t q) {
    return descending ? less(line[q], line[p], t) : less(line[p], line[q], t);
  });
  return order;
}

// Applies `choose` (positions in a line to keep, in order) to every line along `dim`; values and positions.
std::pair<ArrayPtr, ArrayPtr> along(const Array& a, int64_t dim, int64_t length,
                                    const std::function<std::vector<size_t>(const std::vector<Element>&)>& choose) {
  size_t d = at(wrap_dim(dim, a.rank()));
  Shape shape = a.shape, lines = a.shape;
  if (a.rank() > 0) {
    shape[d] = length;
    lines[d] = 1;
  }
  int64_t n = a.rank() > 0 ? a.shape[d] : 1;
  ArrayPtr values = make_array(a.dtype, a.device, shape), places = make_array(DType::i64, a.device, shape);
  for_each_index(lines, [&](Shape index) {
    std::vector<Element> line;
    for (int64_t i = 0; i < n; ++i) {
      if (a.rank() > 0) index[d] = i;
      line.push_back(a.data[at(flat(a.shape, index))]);
    }
    std::vector<size_t> chosen = choose(line);
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (a.rank() > 0) index[d] = static_cast<int64_t>(i);
      size_t to = at(flat(shape, index));
      values->data[to] = line[chosen[i]];
      places->data[to] = Element::integer(static_cast<int64_t>(chosen[i]));
    }
  });
  return {values, places};
}

std::pair<ArrayPtr, ArrayPtr> sorted(const Inputs& in) {
  const Array& a = in.tensor("a");
  int64_t dim = in.integer("dim");
  bool descending = in.has("descending") && in.flag("descending");
  int64_t n = a.rank() > 0 ? a.shape[at(wrap_dim(dim, a.rank()))] : 1;
  return along(a, dim, n, [&](const std::vector<Element>& line) { return sorted_order(line, a.dtype, descending); });
}

Datum sort(const Inputs& in) {
  auto [values, places] = sorted(in);
  return Datum::sequence({values, places});
}

Datum topk(const Inputs& in) {
  const Array& a = in.tensor("a");
  int64_t k = in.integer("k"), dim = in.integer("dim");
  bool largest = !in.has("largest") || in.flag("largest");
  auto [values, places] = along(a, dim, k, [&](const std::vector<Element>& line) {
    std::vector<size_t> order = sorted_order(line, a.dtype, largest);
    order.resize(at(k));
    return order;
  });
  return Datum::sequence({values, places});
}

}  // namespace

void add_sorting(Kernels& k) {
  k["prims.sort"] = sort;
  k["prims.argsort"] = [](const Inputs& in) -> Datum { return sorted(in).second; };
  k["prims.topk"] = topk;
}

}  // namespace thunder::reference
