// Padding by reflection and replication, and its gradient.
#include <algorithm>

#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

int64_t reflected(int64_t i, int64_t n) {
  if (i < 0) i = -i;
  return i >= n ? 2 * (n - 1) - i : i;
}

int64_t clamped(int64_t i, int64_t n) { return std::clamp<int64_t>(i, 0, n - 1); }

// Where each element of the padded tensor comes from.
struct Padding {
  int64_t (*edge)(int64_t, int64_t);
  std::vector<int64_t> pad;
  Shape from;

  Shape padded() const {
    Shape shape = from;
    for (size_t d = 0; d < pad.size() / 2; ++d) shape[shape.size() - 1 - d] += pad[2 * d] + pad[2 * d + 1];
    return shape;
  }
  Shape source(Shape i) const {
    for (size_t d = 0; d < pad.size() / 2; ++d) {
      size_t dim = i.size() - 1 - d;
      i[dim] = edge(i[dim] - pad[2 * d], from[dim]);
    }
    return i;
  }
};

Kernel forward(int64_t (*edge)(int64_t, int64_t)) {
  return [=](const Inputs& in) -> Datum {
    const Array& x = in.tensor("input");
    Padding p{edge, in.integers("padding"), x.shape};
    ArrayPtr out = make_array(x.dtype, x.device, p.padded());
    size_t k = 0;
    for_each_index(out->shape, [&](const Shape& i) { out->data[k++] = x.data[at(flat(x.shape, p.source(i)))]; });
    return out;
  };
}

Kernel backward(int64_t (*edge)(int64_t, int64_t)) {
  return [=](const Inputs& in) -> Datum {
    const Array &g = in.tensor("grad_output"), &x = in.tensor("self");
    Padding p{edge, in.integers("padding"), x.shape};
    if (p.padded() != g.shape) throw Undefined("padding: a gradient of another shape");
    ArrayPtr out = make_array(x.dtype, x.device, x.shape);
    size_t k = 0;
    for_each_index(g.shape, [&](const Shape& i) {
      Element& e = out->data[at(flat(x.shape, p.source(i)))];
      const Element& d = g.data[k++];
      e = {e.i + d.i, e.re + d.re, e.im + d.im};
    });
    for (Element& e : out->data) e = in.store(out->dtype, e);
    return out;
  };
}

}  // namespace

void add_padding(Kernels& k) {
  for (const char* n : {"1d", "2d", "3d"}) {
    std::string reflection = std::string("torch.reflection_pad") + n,
                replication = std::string("torch.replication_pad") + n;
    k[reflection] = forward(reflected);
    k[reflection + "_backward"] = backward(reflected);
    k[replication] = forward(clamped);
    k[replication + "_backward"] = backward(clamped);
  }
}

}  // namespace thunder::reference
