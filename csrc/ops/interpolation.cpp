#include "ops/interpolation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ops/common.h"
#include "ops/shape_common.h"
#include "ops/windows.h"

namespace thunder::ops {
namespace {

bool is_nearest(const Axis& a) { return a.how == Interpolation::Nearest || a.how == Interpolation::NearestExact; }

// ---- the numbers ----------------------------------------------------------------------------------------------------

// Distance of neighbours of the result in the input.
template <class T>
T scale(const Axis& a) {
  if (a.align_corners) return a.to > 1 ? static_cast<T>(a.from - 1) / static_cast<T>(a.to - 1) : T(0);
  return a.factor > 0 ? static_cast<T>(1.0 / a.factor) : static_cast<T>(a.from) / static_cast<T>(a.to);
}

double scale(const Axis& a, DType t) { return t == DType::f64 ? scale<double>(a) : double(scale<float>(a)); }

// Distance of neighbours of the input in the result, for the nearest element, which is always computed in float32.
float inverse_scale(const Axis& a) {
  return a.factor > 0 ? static_cast<float>(a.factor) : static_cast<float>(a.to) / static_cast<float>(a.from);
}

// The place in the input to which an element of the result belongs.
float source(const Axis& a, int64_t j) {
  const float s = scale<float>(a), at = static_cast<float>(j);
  if (a.how == Interpolation::Nearest || a.align_corners) return at * s;
  if (a.how == Interpolation::NearestExact) return (at + 0.5f) * s;
  const float p = (at + 0.5f) * s;
  return a.how == Interpolation::Cubic ? p - 0.5f : std::max(p - 0.5f, 0.0f);
}

struct Interval {
  int64_t first, last;
  int64_t size() const { return last - first + 1; }
};

// What an element of the result takes with weights other than zero.
Interval places(const Axis& a, int64_t j) {
  const float at = source(a, j), below = std::floor(at);
  const int64_t first = static_cast<int64_t>(below), end = a.from - 1;
  if (is_nearest(a)) return {std::min(first, end), std::min(first, end)};
  if (at == below) return {first, first};
  if (a.how == Interpolation::Linear) return {first, std::min(first + 1, end)};
  return {std::clamp<int64_t>(first - 1, 0, end), std::clamp<int64_t>(first + 2, 0, end)};
}

// Where the elements of the result begin whose nearest is element i of the input, by eager's formula for gradients.
int64_t nearest_begin(const Axis& a, int64_t i) {
  const float at = static_cast<float>(i) * inverse_scale(a);
  const float shifted = a.how == Interpolation::NearestExact ? at - 0.5f : at;
  return std::min(static_cast<int64_t>(std::ceil(shifted)), a.to);
}

// For each element of the input those of the result that take it; empty ones have their last in front of their first.
std::vector<Interval> intervals_of_readers(const Axis& a) {
  std::vector<Interval> out;
  if (is_nearest(a)) {
    for (int64_t i = 0; i < a.from; ++i) out.push_back({nearest_begin(a, i), nearest_begin(a, i + 1) - 1});
    return out;
  }
  out.assign(static_cast<size_t>(a.from), {a.to, -1});
  for (int64_t j = 0; j < a.to; ++j) {
    const Interval p = places(a, j);
    for (int64_t i = p.first; i <= p.last; ++i) {
      Interval& r = out[static_cast<size_t>(i)];
      r = {std::min(r.first, j), std::max(r.last, j)};
    }
  }
  return out;
}

// The first reader of element i is not in front of floor(start + step * i).
struct Line {
  double start = 0, step = 0;
  int64_t at(int64_t i) const { return static_cast<int64_t>(std::floor(start + step * static_cast<double>(i))); }
};

Line first_readers(const Axis& a, const std::vector<Interval>& read_by) {
  const double s = scale<double>(a);
  Line line{0, s > 0 ? 1 / s : 0};
  double least = static_cast<double>(a.to);
  for (size_t i = 0; i < read_by.size(); ++i)
    if (read_by[i].size() > 0)
      least = std::min(least, static_cast<double>(read_by[i].first) - line.step * static_cast<double>(i));
  line.start = least;
  // A sum that is rounded down must not lose its last unit.
  for (size_t i = 0; i < read_by.size(); ++i)
    if (read_by[i].size() > 0 && line.at(static_cast<int64_t>(i)) > read_by[i].first) line.start -= 1e-6;
  return line;
}

int64_t most_readers(const std::vector<Interval>& read_by, const Line& line) {
  int64_t most = 1;
  for (size_t i = 0; i < read_by.size(); ++i)
    if (read_by[i].size() > 0) most = std::max(most, read_by[i].last - line.at(static_cast<int64_t>(i)) + 1);
  return most;
}

// ---- the nearest element where one size is a multiple of the other --------------------------------------------------

// How many neighbours of the result are one element, forward and backward; 0 where that differs.
int64_t repeats(const Axis& a) {
  if (!is_nearest(a) || a.to % a.from != 0) return 0;
  const int64_t n = a.to / a.from;
  for (int64_t j = 0; j < a.to; ++j)
    if (places(a, j).first != j / n) return 0;
  for (int64_t i = 0; i <= a.from; ++i)
    if (nearest_begin(a, i) != i * n) return 0;
  return n;
}

Formula sum_of_repeated(const Formula& g, int64_t dim, int64_t n) {
  const Dim size = g.shape()[static_cast<size_t>(dim)];
  std::optional<Formula> total;
  for (int64_t k = 0; k < n; ++k) {
    const Formula part(slice_dim(g.expr(), dim, Dim(k), size, Dim(n)));
    total = total ? *total + part : part;
  }
  return *total;
}

// ---- places and weights as tensors ----------------------------------------------------------------------------------

using Tap = Resampler::Tap;
using Readers = Resampler::Readers;

Formula floor(const Formula& x) { return x.call("prims.floor"); }
Formula whole(const Formula& x) { return as(x, DType::i32); }
Formula at_most(const Formula& x, int64_t n) { return x.call("prims.minimum", Arg(n)); }
Formula at_least(const Formula& x, int64_t n) { return x.call("prims.maximum", Arg(n)); }
Formula shifted(const Formula& x, int64_t n) { return n == 0 ? x : x.call("prims.add", Arg(n)); }

// PyTorch's cubic convolution with A = -0.75, for distances below one and from one to two.
constexpr double kA = -0.75;
Formula near_weight(const Formula& x) { return ((x * (kA + 2)) - (kA + 3)) * x * x + 1.0; }
Formula far_weight(const Formula& x) { return ((x * kA - 5 * kA) * x + 8 * kA) * x - 4 * kA; }

// Of elements `j` of the result, which are in the dtype in which all is computed.
std::vector<Tap> taps_of(const Axis& a, const Formula& j) {
  const double s = scale(a, j.dtype());
  const int64_t end = a.from - 1;
  const Formula at = a.align_corners ? j * s : (j + 0.5) * s - 0.5;
  if (a.how == Interpolation::Linear) {
    const Formula p = a.align_corners ? at : maximum(at, 0.0), first = whole(p), rest = p - as(first, j.dtype());
    return {{first, 1.0 - rest}, {at_most(shifted(first, 1), end), rest}};
  }
  const Formula below = floor(at), rest = at - below, first = whole(below), other = 1.0 - rest;
  const std::array<Formula, 4> weights = {far_weight(rest + 1.0), near_weight(rest), near_weight(other),
                                          far_weight(other + 1.0)};
  std::vector<Tap> out;
  for (int64_t k = 0; k < 4; ++k)
    out.push_back({at_most(at_least(shifted(first, k - 1), 0), end), weights[static_cast<size_t>(k)]});
  return out;
}

Formula nearest_places(Builder& b, const Axis& a, Device device) {
  const double half = a.how == Interpolation::NearestExact ? 0.5 : 0;
  const Formula j = steps(b, a.to, half, 1, DType::f32, device);
  return at_most(whole(floor(j * double(scale<float>(a)))), a.from - 1);
}

Formula take(const Formula& x, const Formula& places, int64_t dim) {
  return Formula(x.b()("prims.take", x, places, dim));
}

// A row of a table with one column for each element.
Formula row(const Formula& table, int64_t t) {
  const Expr part = slice_dim(table.expr(), 0, Dim(t), Dim(t + 1));
  return Formula(part.builder()("prims.squeeze", part, Arg(std::vector<int64_t>{0})));
}

Readers readers_of(Builder& b, const Axis& a, DType t, Device device) {
  const std::vector<Interval> read_by = intervals_of_readers(a);
  const Line line = first_readers(a, read_by);
  const Dims shape = {Dim(most_readers(read_by, line)), Dim(a.from)};
  const auto along = [&](const Formula& f, int64_t dim) { return spread_channels(f, shape, dim); };
  const auto count = [&](int64_t dim) {
    return along(steps(b, shape[static_cast<size_t>(dim)].constant(), 0, 1, DType::i32, device), dim);
  };
  const Formula first = whole(floor(steps(b, a.from, line.start, line.step, DType::f64, device)));
  const Formula j = along(first, 1) + count(0), clamped = at_most(at_least(j, 0), a.to - 1), i = count(1);
  std::optional<Formula> weights;
  for (const Tap& tap : taps_of(a, as(clamped, t))) {
    const Formula w = where(tap.place.call("prims.eq", i), *tap.weight, 0.0);
    weights = weights ? *weights + w : w;
  }
  return {clamped, where(j.call("prims.eq", clamped), *weights, 0.0)};
}

// What a reader of another element would add is left out, not multiplied by zero: it may be infinite.
Formula gathered(const Formula& g, int64_t dim, const Readers& readers) {
  std::optional<Formula> total;
  const int64_t rows = readers.places.shape()[0].constant();
  for (int64_t t = 0; t < rows; ++t) {
    const Formula part = take(g, row(readers.places, t), dim);
    const Formula weight = spread_channels(row(readers.weights, t), part.shape(), dim);
    const Formula term = where(weight.call("prims.ne", Arg(0.0)), part * weight, 0.0);
    total = total ? *total + term : term;
  }
  return *total;
}

Formula nearest_gradient(const Formula& g, int64_t dim, const Axis& a) {
  Builder& b = g.b();
  const Device device = g.expr().tensor().device;
  const auto begin = [&](double first) {
    const Formula at = steps(b, a.from, first, 1, DType::f32, device) * double(inverse_scale(a));
    const Formula shifted = a.how == Interpolation::NearestExact ? at - 0.5 : at;
    return at_most(whole(shifted.call("prims.ceil")), a.to);
  };
  const Formula first = begin(0), end = begin(1);
  const int64_t rows = gradient_taps(a);
  std::optional<Formula> total;
  for (int64_t t = 0; t < rows; ++t) {
    const Formula at = shifted(first, t), part = take(g, at_most(at_least(at, 0), a.to - 1), dim);
    const Formula is_one = spread_channels(at.call("prims.lt", end), part.shape(), dim);
    const Formula term = where(is_one, part, 0.0);
    total = total ? *total + term : term;
  }
  return *total;
}

}  // namespace

bool is_identity(const Axis& a) { return a.from == a.to && (a.align_corners || scale<double>(a) == 1); }

int64_t taps(const Axis& a) { return is_identity(a) || is_nearest(a) ? 1 : a.how == Interpolation::Linear ? 2 : 4; }

int64_t gradient_taps(const Axis& a) {
  if (is_identity(a)) return 1;
  for (int64_t j : {int64_t{0}, a.to - 1}) {
    const Interval p = places(a, j);
    if (p.first < 0 || p.last >= a.from || p.first > p.last) return 0;
  }
  const std::vector<Interval> read_by = intervals_of_readers(a);
  if (!is_nearest(a)) return most_readers(read_by, first_readers(a, read_by));
  int64_t most = 1;
  for (const Interval& r : read_by) most = std::max(most, r.size());
  return most;
}

Formula Resampler::forward(const Formula& x, int64_t dim, const Axis& a) {
  if (is_identity(a)) return x;
  if (const int64_t n = repeats(a)) return repeat_each(x, dim, n);
  auto known = std::find_if(taps_.begin(), taps_.end(), [&](const auto& t) { return t.first == a; });
  if (known == taps_.end()) {
    const Device device = x.expr().tensor().device;
    known = taps_.emplace(known, a,
                          is_nearest(a) ? std::vector<Tap>{{nearest_places(x.b(), a, device), std::nullopt}}
                                        : taps_of(a, steps(x.b(), a.to, 0, 1, x.dtype(), device)));
  }
  std::optional<Formula> total;
  for (const Tap& tap : known->second) {
    const Formula part = take(x, tap.place, dim);
    const Formula term = tap.weight ? part * spread_channels(*tap.weight, part.shape(), dim) : part;
    total = total ? *total + term : term;
  }
  return *total;
}

Formula Resampler::backward(const Formula& g, int64_t dim, const Axis& a) {
  if (is_identity(a)) return g;
  if (const int64_t n = repeats(a)) return sum_of_repeated(g, dim, n);
  if (is_nearest(a)) return nearest_gradient(g, dim, a);
  auto known = std::find_if(readers_.begin(), readers_.end(), [&](const auto& r) { return r.first == a; });
  if (known == readers_.end())
    known = readers_.emplace(known, a, readers_of(g.b(), a, g.dtype(), g.expr().tensor().device));
  return gathered(g, dim, known->second);
}

}  // namespace thunder::ops
