// Resampling: for each element of a result the elements along one dimension that it takes, written out.
#include <algorithm>
#include <cmath>

#include "reference/evaluator.h"

namespace thunder::reference {
namespace {

enum class How : uint8_t { Nearest, NearestExact, Linear, Cubic };

size_t at(int64_t i) { return static_cast<size_t>(i); }

using Taps = std::vector<std::pair<int64_t, double>>;  // (element, weight)

double cubic(double distance) {
  const double x = std::abs(distance), a = -0.75;
  if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

Taps taps_of(How how, int64_t from, double place) {
  const int64_t end = from - 1, first = static_cast<int64_t>(std::floor(place));
  if (how == How::Nearest || how == How::NearestExact) return {{std::min(first, end), 1}};
  const double rest = place - static_cast<double>(first);
  if (how == How::Linear) return {{first, 1 - rest}, {std::min(first + 1, end), rest}};
  Taps out;
  for (int64_t k = -1; k <= 2; ++k)
    out.emplace_back(std::clamp<int64_t>(first + k, 0, end), cubic(static_cast<double>(k) - rest));
  return out;
}

std::vector<Taps> along(How how, int64_t from, int64_t to, bool align, double factor) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to),
               aligned = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0,
               scale = align        ? aligned
                       : factor > 0 ? 1 / factor
                                    : ratio;
  std::vector<Taps> out;
  for (int64_t j = 0; j < to; ++j) {
    const double n = static_cast<double>(j);
    double place = align || how == How::Nearest ? n * scale : (n + 0.5) * scale - 0.5;
    // Which element is the nearest is found in float32.
    if (how == How::Nearest) place = static_cast<float>(j) * static_cast<float>(scale);
    if (how == How::NearestExact) place = (static_cast<float>(j) + 0.5f) * static_cast<float>(scale);
    if (how == How::Linear) place = std::max(place, 0.0);
    out.push_back(taps_of(how, from, place));
  }
  return out;
}

std::vector<std::vector<Taps>> dimensions(const Inputs& in, How how, size_t n, const Shape& from, const Shape& to) {
  static const std::vector<std::vector<const char*>> kNames = {
      {}, {"scales"}, {"scales_h", "scales_w"}, {"scales_d", "scales_h", "scales_w"}};
  const bool align = in.op().schema.index_of("align_corners") >= 0 && in.flag("align_corners");
  std::vector<std::vector<Taps>> out;
  for (size_t d = 0; d < n; ++d) {
    const char* name = kNames[n][d];
    out.push_back(along(how, from.at(d + 2), to.at(d), align, in.has(name) ? in.real(name) : 0));
  }
  return out;
}

// Calls fn(index into the input, weight) for all that an element of the result takes.
void for_each_tap(const std::vector<std::vector<Taps>>& dims, const Shape& index, size_t d, Shape& place, double weight,
                  const std::function<void(const Shape&, double)>& fn) {
  if (d == dims.size()) return fn(place, weight);
  for (const auto& [i, w] : dims[d][at(index[d + 2])]) {
    place[d + 2] = i;
    for_each_tap(dims, index, d + 1, place, weight * w, fn);
  }
}

Kernel resample(How how, size_t n) {
  return [=](const Inputs& in) -> Datum {
    const Array& x = in.tensor("input");
    const Shape to = in.integers("output_size");
    const auto dims = dimensions(in, how, n, x.shape, to);
    Shape shape = {x.shape.at(0), x.shape.at(1)};
    shape.insert(shape.end(), to.begin(), to.end());
    ArrayPtr out = make_array(x.dtype, x.device, shape);
    size_t k = 0;
    for_each_index(shape, [&](const Shape& index) {
      double total = 0;
      Shape place = index;
      for_each_tap(dims, index, 0, place, 1,
                   [&](const Shape& i, double w) { total += w * to_double(x.data[at(flat(x.shape, i))], x.dtype); });
      out->data[k++] = in.store(x.dtype, {std::llround(total), total, 0});
    });
    return out;
  };
}

Kernel resample_backward(How how, size_t n) {
  return [=](const Inputs& in) -> Datum {
    const Array& g = in.tensor("grad_output");
    const Shape shape = in.integers("input_size"), to = in.integers("output_size");
    const auto dims = dimensions(in, how, n, shape, to);
    ArrayPtr out = make_array(g.dtype, g.device, shape);
    std::vector<double> sums(out->data.size());
    size_t k = 0;
    for_each_index(g.shape, [&](const Shape& index) {
      const double e = g.data[k++].re;
      Shape place = index;
      for_each_tap(dims, index, 0, place, 1, [&](const Shape& i, double w) { sums[at(flat(shape, i))] += w * e; });
    });
    for (size_t j = 0; j < sums.size(); ++j) out->data[j] = in.store(g.dtype, Element::real(sums[j]));
    return out;
  };
}

}  // namespace

void add_resampling(Kernels& k) {
  const auto add = [&](const std::string& name, How how, size_t n) {
    k["torch.resampled_" + name] = resample(how, n);
    k["torch.resampled_" + name + "_backward"] = resample_backward(how, n);
  };
  for (size_t n : {1, 2, 3}) {
    add("nearest" + std::to_string(n) + "d", How::Nearest, n);
    add("nearest_exact" + std::to_string(n) + "d", How::NearestExact, n);
  }
  add("linear1d", How::Linear, 1);
  add("bilinear2d", How::Linear, 2);
  add("trilinear3d", How::Linear, 3);
  add("bicubic2d", How::Cubic, 2);
}

}  // namespace thunder::reference
