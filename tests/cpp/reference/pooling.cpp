// Pooling: windows over the last dimensions.
#include <algorithm>

#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

std::vector<int64_t> each(const Inputs& in, std::string_view name, size_t n, std::vector<int64_t> otherwise) {
  std::vector<int64_t> v = in.has(name) ? in.integers(name) : std::vector<int64_t>{};
  if (v.empty()) v = std::move(otherwise);
  if (v.size() == 1) v.resize(n, v[0]);
  return v;
}

// The part of a plane that an output element reads, one interval a dimension; `full` counts the padding in.
struct Reach {
  std::vector<std::vector<int64_t>> places;
  int64_t full = 1;
};

struct Windows {
  size_t n;
  std::vector<int64_t> kernel, stride, padding, dilation;
  bool ceil;

  Windows(const Inputs& in, size_t dims)
      : n(dims),
        kernel(each(in, "kernel_size", dims, {1})),
        stride(each(in, "stride", dims, kernel)),
        padding(each(in, "padding", dims, {0})),
        dilation(each(in, "dilation", dims, {1})),
        ceil(in.flag("ceil_mode")) {}

  int64_t count(int64_t size, size_t d) const {
    int64_t room = size + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
    int64_t out = (ceil ? room + stride[d] - 1 : room) / stride[d] + 1;
    return ceil && (out - 1) * stride[d] >= size + padding[d] ? out - 1 : out;
  }
  Shape result(const Shape& x) const {
    Shape out = x;
    for (size_t d = 0; d < n; ++d) out[x.size() - n + d] = count(x[x.size() - n + d], d);
    return out;
  }
  Reach reach(const Shape& x, const Shape& index) const {
    Reach r;
    for (size_t d = 0; d < n; ++d) {
      size_t dim = x.size() - n + d;
      int64_t start = index[dim] * stride[d] - padding[d];
      r.full *= std::min(start + kernel[d], x[dim] + padding[d]) - start;
      std::vector<int64_t> places;
      for (int64_t k = 0; k < kernel[d]; ++k)
        if (int64_t p = start + k * dilation[d]; p >= 0 && p < x[dim]) places.push_back(p);
      r.places.push_back(std::move(places));
    }
    return r;
  }
};

// Calls fn(index into x) for every place of a window.
void for_each_place(const Reach& r, const Shape& index, const std::function<void(const Shape&)>& fn) {
  Shape sizes;
  for (const auto& p : r.places) sizes.push_back(static_cast<int64_t>(p.size()));
  Shape full = index;
  for_each_index(sizes, [&](const Shape& k) {
    for (size_t d = 0; d < k.size(); ++d) full[full.size() - k.size() + d] = r.places[d][at(k[d])];
    fn(full);
  });
}

// The position within the plane, as max_pool counts it.
int64_t within_plane(const Shape& x, const Shape& index, size_t n) {
  int64_t p = 0;
  for (size_t d = x.size() - n; d < x.size(); ++d) p = p * x[d] + index[d];
  return p;
}

Kernel max_pool(size_t n) {
  return [=](const Inputs& in) {
    const Array& x = in.tensor("input");
    Windows w(in, n);
    Shape shape = w.result(x.shape);
    ArrayPtr values = make_array(x.dtype, x.device, shape), places = make_array(DType::i64, x.device, shape);
    size_t k = 0;
    for_each_index(shape, [&](const Shape& index) {
      bool first = true;
      Element best;
      int64_t place = 0;
      for_each_place(w.reach(x.shape, index), index, [&](const Shape& i) {
        const Element& e = x.data[at(flat(x.shape, i))];
        bool better = is_exact(x.dtype) ? e.i > best.i : e.re > best.re || (std::isnan(e.re) && !std::isnan(best.re));
        if (!first && !better) return;
        first = false;
        best = e;
        place = within_plane(x.shape, i, n);
      });
      values->data[k] = best;
      places->data[k++] = Element::integer(place);
    });
    return Datum::sequence({values, places});
  };
}

Kernel max_pool_backward(size_t n) {
  return [=](const Inputs& in) -> Datum {
    const Array &g = in.tensor("grad_output"), &x = in.tensor("self"), &indices = in.tensor("indices");
    ArrayPtr out = make_array(x.dtype, x.device, x.shape);
    int64_t plane = 1, own = 1;
    for (size_t d = x.shape.size() - n; d < x.shape.size(); ++d) {
      plane *= x.shape[d];
      own *= g.shape[d];
    }
    for (int64_t k = 0; k < g.numel(); ++k) {
      int64_t place = indices.data[at(k)].i;
      if (place < 0 || place >= plane) throw Undefined("max_pool: an index outside of the plane");
      Element& e = out->data[at(k / own * plane + place)];
      e = in.store(x.dtype, Element::real(e.re + g.data[at(k)].re));
    }
    return out;
  };
}

double divisor(const Inputs& in, const Reach& r) {
  if (in.has("divisor_override")) return static_cast<double>(in.integer("divisor_override"));
  if (in.flag("count_include_pad")) return static_cast<double>(r.full);
  int64_t inside = 1;
  for (const auto& p : r.places) inside *= static_cast<int64_t>(p.size());
  return static_cast<double>(inside);
}

Kernel avg_pool(size_t n) {
  return [=](const Inputs& in) -> Datum {
    const Array& x = in.tensor("input");
    Windows w(in, n);
    ArrayPtr out = make_array(x.dtype, x.device, w.result(x.shape));
    size_t k = 0;
    for_each_index(out->shape, [&](const Shape& index) {
      Reach r = w.reach(x.shape, index);
      double total = 0;
      for_each_place(r, index, [&](const Shape& i) { total += to_double(x.data[at(flat(x.shape, i))], x.dtype); });
      double mean = total / divisor(in, r);
      out->data[k++] = in.store(x.dtype, {static_cast<int64_t>(mean), mean, 0});
    });
    return out;
  };
}

Kernel avg_pool_backward(size_t n) {
  return [=](const Inputs& in) -> Datum {
    const Array &g = in.tensor("grad_output"), &x = in.tensor("self");
    Windows w(in, n);
    if (w.result(x.shape) != g.shape) throw Undefined("avg_pool: a gradient of another shape");
    std::vector<double> sums(x.data.size());
    size_t k = 0;
    for_each_index(g.shape, [&](const Shape& index) {
      Reach r = w.reach(x.shape, index);
      double part = g.data[k++].re / divisor(in, r);
      for_each_place(r, index, [&](const Shape& i) { sums[at(flat(x.shape, i))] += part; });
    });
    ArrayPtr out = make_array(x.dtype, x.device, x.shape);
    for (size_t j = 0; j < sums.size(); ++j) out->data[j] = in.store(x.dtype, Element::real(sums[j]));
    return out;
  };
}

// Windows of an adaptive pooling: from floor(i * in / out) up to ceil((i + 1) * in / out).
Reach adaptive_reach(const Shape& x, const Shape& out, const Shape& index) {
  Reach r;
  for (size_t d = x.size() - 2; d < x.size(); ++d) {
    std::vector<int64_t> places;
    for (int64_t p = index[d] * x[d] / out[d]; p < ((index[d] + 1) * x[d] + out[d] - 1) / out[d]; ++p)
      places.push_back(p);
    r.full *= static_cast<int64_t>(places.size());
    r.places.push_back(std::move(places));
  }
  return r;
}

Datum adaptive_avg_pool(const Inputs& in) {
  const Array& x = in.tensor("input");
  Shape shape = x.shape;
  std::vector<int64_t> size = in.integers("output_size");
  shape[shape.size() - 2] = size.at(0);
  shape[shape.size() - 1] = size.at(1);
  ArrayPtr out = make_array(x.dtype, x.device, shape);
  size_t k = 0;
  for_each_index(shape, [&](const Shape& index) {
    Reach r = adaptive_reach(x.shape, shape, index);
    double total = 0;
    for_each_place(r, index, [&](const Shape& i) { total += to_double(x.data[at(flat(x.shape, i))], x.dtype); });
    double mean = total / static_cast<double>(r.full);
    out->data[k++] = in.store(x.dtype, {static_cast<int64_t>(mean), mean, 0});
  });
  return out;
}

Datum adaptive_avg_pool_backward(const Inputs& in) {
  const Array &g = in.tensor("grad_output"), &x = in.tensor("self");
  std::vector<double> sums(x.data.size());
  size_t k = 0;
  for_each_index(g.shape, [&](const Shape& index) {
    Reach r = adaptive_reach(x.shape, g.shape, index);
    double part = g.data[k++].re / static_cast<double>(r.full);
    for_each_place(r, index, [&](const Shape& i) { sums[at(flat(x.shape, i))] += part; });
  });
  ArrayPtr out = make_array(x.dtype, x.device, x.shape);
  for (size_t j = 0; j < sums.size(); ++j) out->data[j] = in.store(x.dtype, Element::real(sums[j]));
  return out;
}

}  // namespace

void add_pooling(Kernels& k) {
  for (size_t n : {2, 3}) {
    std::string d = std::to_string(n) + "d";
    k["torch.max_pool" + d + "_with_indices"] = max_pool(n);
    k["torch.max_pool" + d + "_with_indices_backward"] = max_pool_backward(n);
    k["torch.avg_pool" + d] = avg_pool(n);
    k["torch.avg_pool" + d + "_backward"] = avg_pool_backward(n);
  }
  k["torch._adaptive_avg_pool2d"] = adaptive_avg_pool;
  k["torch._adaptive_avg_pool2d_backward"] = adaptive_avg_pool_backward;
}

}  // namespace thunder::reference
