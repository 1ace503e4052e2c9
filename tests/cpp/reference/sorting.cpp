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

// ---- order statistics -----------------------------------------------------------------------------------------------

// Without the dimension unless `keepdim`.
ArrayPtr dropped(ArrayPtr a, int64_t dim, bool keepdim) {
  if (!keepdim && !a->shape.empty()) a->shape.erase(a->shape.begin() + wrap_dim(dim, a->rank()));
  return a;
}

size_t lower_median(const std::vector<Element>& line, DType t, bool skip_nan) {
  if (line.empty()) throw Undefined("the median of no elements");
  std::vector<size_t> order = sorted_order(line, t, false);
  size_t n = line.size();
  if (!is_exact(t)) {
    size_t numbers = 0;
    for (const Element& e : line) numbers += !std::isnan(e.re);
    if (skip_nan) n = numbers == 0 ? 1 : numbers;
    else if (numbers < n) return order[numbers];
  }
  return order[(n - 1) / 2];
}

size_t most_frequent(const std::vector<Element>& line, DType t) {
  if (line.empty()) throw Undefined("the mode of no elements");
  std::vector<size_t> order = sorted_order(line, t, false);
  size_t best = order[0], best_count = 0;
  for (size_t i = 0; i < order.size();) {
    size_t j = i;
    while (j < order.size() && !less(line[order[i]], line[order[j]], t)) ++j;
    if (j - i > best_count) {
      best_count = j - i;
      best = order[j - 1];
    }
    i = j;
  }
  return best;
}

Kernel one_a_line(const std::function<size_t(const Inputs&, const std::vector<Element>&, DType)>& choose) {
  return [=](const Inputs& in) {
    const Array& a = in.tensor("input");
    int64_t dim = in.integer("dim");
    auto [values, places] = along(
        a, dim, 1, [&](const std::vector<Element>& line) { return std::vector<size_t>{choose(in, line, a.dtype)}; });
    return Datum::sequence({dropped(values, dim, in.flag("keepdim")), dropped(places, dim, in.flag("keepdim"))});
  };
}

Kernel median_of_all(bool skip_nan) {
  return [=](const Inputs& in) -> Datum {
    const Array& a = in.tensor("input");
    ArrayPtr out = make_array(a.dtype, a.device, {});
    if (a.data.empty()) out->data[0] = is_exact(a.dtype) ? Element::integer(INT64_MIN) : Element::real(std::nan(""));
    else out->data[0] = a.data[lower_median(a.data, a.dtype, skip_nan)];
    out->data[0] = in.store(a.dtype, out->data[0]);
    return out;
  };
}

// How many elements of a sorted row stand before x.
int64_t insertion_place(const std::vector<double>& row, double x, bool right) {
  int64_t n = 0;
  for (double e : row) n += right ? e <= x : e < x;
  return n;
}

Datum search(const Inputs& in, const Array& sorted, const Datum& input) {
  bool right = in.flag("right") || (in.has("side") && in["side"].text == "right");
  DType t = in.flag("out_int32") ? DType::i32 : DType::i64;
  Shape shape = input.is_tensor() ? input.array->shape : Shape{};
  ArrayPtr out = make_array(t, sorted.device, shape);
  int64_t n = sorted.shape.back();
  for (size_t k = 0; k < out->data.size(); ++k) {
    int64_t row = sorted.rank() == 1 ? 0 : static_cast<int64_t>(k) / shape.back();
    std::vector<double> values;
    for (int64_t j = 0; j < n; ++j) {
      int64_t from = j;
      if (in.has("sorter")) from = in.tensor("sorter").data[at(row * n + j)].i;
      if (from < 0 || from >= n) throw Undefined("searchsorted: a sorter out of range");
      values.push_back(to_double(sorted.data[at(row * n + from)], sorted.dtype));
    }
    double x = input.is_tensor() ? to_double(input.array->data[k], input.array->dtype) : input.real();
    out->data[k] = Element::integer(insertion_place(values, x, right));
  }
  return out;
}

}  // namespace

void add_sorting(Kernels& k) {
  k["prims.sort"] = sort;
  k["prims.argsort"] = [](const Inputs& in) -> Datum { return sorted(in).second; };
  k["prims.topk"] = topk;
  k["torch.median"] = median_of_all(false);
  k["torch.nanmedian"] = median_of_all(true);
  k["torch.median.dim"] =
      one_a_line([](const Inputs&, const auto& line, DType t) { return lower_median(line, t, false); });
  k["torch.nanmedian.dim"] =
      one_a_line([](const Inputs&, const auto& line, DType t) { return lower_median(line, t, true); });
  k["torch.mode"] = one_a_line([](const Inputs&, const auto& line, DType t) { return most_frequent(line, t); });
  k["torch.kthvalue"] = one_a_line([](const Inputs& in, const auto& line, DType t) {
    return sorted_order(line, t, false).at(at(in.integer("k") - 1));
  });
  k["torch.searchsorted"] = k["torch.searchsorted.scalar"] = [](const Inputs& in) {
    return search(in, in.tensor("sorted_sequence"), in["input"]);
  };
  k["torch.bucketize"] =
      k["torch.bucketize.scalar"] = [](const Inputs& in) { return search(in, in.tensor("boundaries"), in["input"]); };
}

}  // namespace thunder::reference
