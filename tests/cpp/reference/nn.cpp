// Matrix products and convolution.
#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

// A running sum of products in any type.
struct Accumulator {
  uint64_t i = 0;
  std::complex<double> z = 0;
  void add(const Element& x, const Element& y) {
    i += static_cast<uint64_t>(x.i) * static_cast<uint64_t>(y.i);
    z += x.z() * y.z();
  }
  Element value() const { return {static_cast<int64_t>(i), z.real(), z.imag()}; }
};

Datum matmul(const Inputs& in) {
  const Array &a = in.tensor("a"), &b = in.tensor("b");
  size_t n = a.shape.size();
  if (n < 2 || b.shape.size() != n || a.shape[n - 1] != b.shape[n - 2]) throw Wrong("matmul: shapes do not fit");
  int64_t rows = a.shape[n - 2], inner = a.shape[n - 1], columns = b.shape[n - 1];
  Shape batch(a.shape.begin(), a.shape.end() - 2), shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  ArrayPtr out = make_array(a.dtype, a.device, shape);
  for (int64_t m = 0; m < count(batch); ++m)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        Accumulator sum;
        for (int64_t k = 0; k < inner; ++k)
          sum.add(a.data[at((m * rows + r) * inner + k)], b.data[at((m * inner + k) * columns + c)]);
        out->data[at((m * rows + r) * columns + c)] = in.store(a.dtype, sum.value());
      }
  return out;
}

Datum linear(const Inputs& in) {
  const Array &a = in.tensor("a"), &w = in.tensor("w");
  int64_t inner = a.shape.back(), columns = w.shape.at(0);
  if (w.shape.at(1) != inner) throw Wrong("linear: shapes do not fit");
  Shape shape = a.shape;
  shape.back() = columns;
  ArrayPtr out = make_array(a.dtype, a.device, shape);
  Shape leading(a.shape.begin(), a.shape.end() - 1);
  for (int64_t r = 0; r < count(leading); ++r)
    for (int64_t c = 0; c < columns; ++c) {
      Accumulator sum;
      for (int64_t k = 0; k < inner; ++k) sum.add(a.data[at(r * inner + k)], w.data[at(c * inner + k)]);
      if (in.has("bias")) {
        Element one{1, 1, 0};
        sum.add(in.tensor("bias").data[at(c)], one);
      }
      out->data[at(r * columns + c)] = in.store(a.dtype, sum.value());
    }
  return out;
}

// Every pair of an input place and an output place that a weight joins: the input place may lie in the padding.
struct Window {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups;
  bool transposed;

  explicit Window(const Inputs& in)
      : stride(in.integers("stride")),
        padding(in.integers("padding")),
        dilation(in.integers("dilation")),
        output_padding(in.integers("output_padding")),
        groups(in.integer("groups")),
        transposed(in.flag("transposed")) {}

  Shape result(const Array& x, const Array& w) const {
    Shape shape = {x.shape[0], transposed ? w.shape[1] * groups : w.shape[0]};
    for (size_t d = 0; d + 2 < x.shape.size(); ++d) {
      int64_t reach = dilation[d] * (w.shape[d + 2] - 1) + 1;
      shape.push_back(transposed ? (x.shape[d + 2] - 1) * stride[d] - 2 * padding[d] + reach + output_padding[d]
                                 : (x.shape[d + 2] + 2 * padding[d] - reach) / stride[d] + 1);
    }
    return shape;
  }

  // fn(x place, w place, out place) for each product of a forward convolution.
  void for_each_product(const Shape& x, const Shape& w, const Shape& out,
                        const std::function<void(int64_t, int64_t, int64_t)>& fn) const {
    // A transposed convolution is a convolution with the roles of input and output exchanged.
    const Shape &near = transposed ? x : out, &far = transposed ? out : x;
    for_each_index(w, [&](const Shape& k) {
      int64_t per_group = w[0] / groups;
      int64_t group = k[0] / per_group;
      int64_t far_channel = group * w[1] + k[1];
      Shape places(near.begin() + 2, near.end());
      for (int64_t b = 0; b < x[0]; ++b)
        for_each_index(places, [&](const Shape& place) {
          Shape near_at = {b, k[0]}, far_at = {b, far_channel};
          for (size_t d = 0; d < place.size(); ++d) {
            near_at.push_back(place[d]);
            far_at.push_back(place[d] * stride[d] - padding[d] + k[d + 2] * dilation[d]);
            if (far_at.back() < 0 || far_at.back() >= far[d + 2]) return;
          }
          int64_t near_flat = flat(near, near_at), far_flat = flat(far, far_at), w_flat = flat(w, k);
          fn(transposed ? near_flat : far_flat, w_flat, transposed ? far_flat : near_flat);
        });
    });
  }
};

ArrayPtr finished(const Inputs& in, const Array& like, Shape shape, const std::vector<Accumulator>& sums) {
  ArrayPtr out = make_array(like.dtype, like.device, std::move(shape));
  for (size_t k = 0; k < sums.size(); ++k) out->data[k] = in.store(like.dtype, sums[k].value());
  return out;
}

Datum convolution(const Inputs& in) {
  const Array &x = in.tensor("input"), &w = in.tensor("weight");
  Window window(in);
  Shape shape = window.result(x, w);
  std::vector<Accumulator> sums(at(count(shape)));
  window.for_each_product(x.shape, w.shape, shape,
                          [&](int64_t i, int64_t k, int64_t o) { sums[at(o)].add(x.data[at(i)], w.data[at(k)]); });
  if (in.has("bias")) {
    size_t k = 0;
    for_each_index(shape, [&](const Shape& index) {
      sums[k++].add(in.tensor("bias").data[at(index[1])], Element{1, 1, 0});
    });
  }
  return finished(in, x, shape, sums);
}

Datum convolution_backward(const Inputs& in) {
  const Array &g = in.tensor("grad_output"), &x = in.tensor("input"), &w = in.tensor("weight");
  Window window(in);
  std::vector<Datum> results(3);
  const std::vector<Datum>& mask = in["output_mask"].items;
  std::vector<Accumulator> dx(x.data.size()), dw(w.data.size()), db(at(g.shape[1]));
  window.for_each_product(x.shape, w.shape, g.shape, [&](int64_t i, int64_t k, int64_t o) {
    dx[at(i)].add(g.data[at(o)], w.data[at(k)]);
    dw[at(k)].add(g.data[at(o)], x.data[at(i)]);
  });
  size_t k = 0;
  for_each_index(g.shape, [&](const Shape& index) { db[at(index[1])].add(g.data[k++], Element{1, 1, 0}); });
  if (mask.at(0).truth()) results[0] = finished(in, x, x.shape, dx);
  if (mask.at(1).truth()) results[1] = finished(in, w, w.shape, dw);
  if (mask.at(2).truth()) results[2] = finished(in, g, {g.shape[1]}, db);
  return Datum::sequence(std::move(results));
}

}  // namespace

void add_nn(Kernels& k) {
  k["prims.matmul"] = matmul;
  k["prims.linear"] = linear;
  k["prims.convolution"] = convolution;
  k["torch.convolution_backward"] = convolution_backward;
}

}  // namespace thunder::reference
