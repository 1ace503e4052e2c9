// Different values and slices.
#include <algorithm>

#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

using Slice = std::vector<Element>;

bool less(const Slice& a, const Slice& b, DType t) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [&](const Element& x, const Element& y) {
    return is_exact(t) ? x.i < y.i : x.re < y.re;
  });
}

struct Distinct {
  std::vector<Slice> values;
  std::vector<int64_t> inverse, counts;
};

// Sorted, or in runs; NaN differs from itself.
Distinct distinct(const std::vector<Slice>& slices, DType t, bool consecutive) {
  Distinct d;
  auto equal = [&](const Slice& a, const Slice& b) {
    for (size_t i = 0; i < a.size(); ++i)
      if (is_exact(t) ? a[i].i != b[i].i : a[i].re != b[i].re || a[i].im != b[i].im) return false;
    return true;
  };
  std::vector<size_t> order(slices.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (!consecutive)
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return less(slices[a], slices[b], t); });
  d.inverse.resize(slices.size());
  for (size_t i : order) {
    if (d.values.empty() || !equal(d.values.back(), slices[i])) {
      d.values.push_back(slices[i]);
      d.counts.push_back(0);
    }
    d.inverse[i] = static_cast<int64_t>(d.values.size()) - 1;
    ++d.counts.back();
  }
  return d;
}

ArrayPtr integers(const std::vector<int64_t>& from, Device device, Shape shape) {
  ArrayPtr out = make_array(DType::i64, device, std::move(shape));
  for (size_t k = 0; k < out->data.size(); ++k) out->data[k] = Element::integer(from[k]);
  return out;
}

Kernel flat_unique(bool consecutive) {
  return [=](const Inputs& in) {
    const Array& a = in.tensor("a");
    std::vector<Slice> slices;
    for (const Element& e : a.data) slices.push_back({e});
    Distinct d = distinct(slices, a.dtype, consecutive);
    auto n = static_cast<int64_t>(d.values.size());
    ArrayPtr values = make_array(a.dtype, a.device, {n});
    for (size_t k = 0; k < d.values.size(); ++k) values->data[k] = d.values[k][0];
    bool inverse = in.flag("return_inverse"), counts = in.flag("return_counts");
    return Datum::sequence({values, integers(d.inverse, a.device, inverse ? a.shape : Shape{0}),
                            integers(d.counts, a.device, {counts ? n : 0})});
  };
}

Kernel unique_slices(bool consecutive) {
  return [=](const Inputs& in) {
    const Array& a = in.tensor("a");
    size_t dim = at(wrap_dim(in.integer("dim"), a.rank()));
    std::vector<Slice> slices(at(a.shape[dim]));
    size_t k = 0;
    for_each_index(a.shape, [&](const Shape& i) { slices[at(i[dim])].push_back(a.data[k++]); });
    Distinct d = distinct(slices, a.dtype, consecutive);
    Shape shape = a.shape;
    shape[dim] = static_cast<int64_t>(d.values.size());
    ArrayPtr values = make_array(a.dtype, a.device, shape);
    std::vector<size_t> next(d.values.size(), 0);
    k = 0;
    for_each_index(shape, [&](const Shape& i) { values->data[k++] = d.values[at(i[dim])][next[at(i[dim])]++]; });
    return Datum::sequence(
        {values, integers(d.inverse, a.device, {a.shape[dim]}), integers(d.counts, a.device, {shape[dim]})});
  };
}

}  // namespace

void add_unique(Kernels& k) {
  k["prims.unique"] = flat_unique(false);
  k["prims.unique_consecutive"] = flat_unique(true);
  k["prims.unique_dim"] = unique_slices(false);
  k["prims.unique_dim_consecutive"] = unique_slices(true);
}

}  // namespace thunder::reference
