#include "ops/windows.h"

#include <algorithm>
#include <optional>

#include "ops/common.h"
#include "ops/shape_common.h"

namespace thunder::ops {
namespace {

Dim size_of(const Formula& x, int64_t dim) { return x.shape()[static_cast<size_t>(dim)]; }

// Zeros around the windows' dimensions, as far as windows reach.
Formula padded(const Formula& x, int64_t first, const std::vector<Windows>& windows) {
  ArgList config;
  bool any = false;
  const int64_t rank = static_cast<int64_t>(x.shape().size()), n = static_cast<int64_t>(windows.size());
  for (int64_t d = 0; d < rank; ++d) {
    int64_t low = 0, high = 0;
    if (d >= first && d < first + n) {
      const Windows& w = windows[static_cast<size_t>(d - first)];
      low = w.padding;
      high = std::max<int64_t>(0, (w.out - 1) * w.stride + w.kernel - w.padding - w.in);
    }
    any = any || low > 0 || high > 0;
    config.push_back(Dims{Dim(low), Dim(high), Dim(0)});
  }
  return any ? Formula(x.b()("prims.pad", x, 0.0, Arg::list(std::move(config)))) : x;
}

// Calls fn with each row of numbers below these bounds, the last one fastest.
void for_each_row(const std::vector<int64_t>& bounds, const std::function<void(const std::vector<int64_t>&)>& fn) {
  std::vector<int64_t> row(bounds.size(), 0);
  while (true) {
    fn(row);
    size_t d = bounds.size();
    while (d > 0 && ++row[d - 1] == bounds[d - 1]) row[--d] = 0;
    if (d == 0) return;
  }
}

// For each element of the input what `x` has for the k-th window in front of the last one that begins no later than the
// element; `other` where there is none, or the element is behind its end.
Formula reader(const Formula& x, int64_t dim, const Windows& w, int64_t k, const Arg& other) {
  const int64_t before = w.readers() - 1, last = (w.in - 1 + w.padding) / w.stride;
  ArgList config(x.shape().size(), Arg(Dims{Dim(0), Dim(0), Dim(0)}));
  config[static_cast<size_t>(dim)] = Arg(Dims{Dim(before), Dim(std::max<int64_t>(0, last + 1 - w.out)), Dim(0)});
  const Formula padded(x.b()("prims.pad", x, other, Arg::list(std::move(config))));
  Dims wide = padded.shape(), shape = wide;
  wide.insert(wide.begin() + dim + 1, Dim(w.stride));
  shape[static_cast<size_t>(dim)] = size_of(padded, dim) * Dim(w.stride);
  Formula each = spread(padded, wide, {dim + 1});
  // Of the places between two windows' beginnings those that the k-th window still has.
  if (const int64_t within = w.kernel - k * w.stride; within < w.stride) {
    const Formula place = steps(x.b(), w.stride, 0, 1, DType::i32, x.expr().tensor().device);
    each = where(spread_channels(place.call("prims.lt", Arg(within)), wide, dim + 1), each, other);
  }
  const Dim start(w.padding + (before - k) * w.stride);
  return Formula(slice_dim(reshape(x.b(), each, shape), dim, start, start + Dim(w.in)));
}

}  // namespace

Expr in_memory_order(const Expr& x, bool channels_last, const std::function<Expr(const Expr&, int64_t)>& fn) {
  if (!channels_last) return fn(x, 2);
  const int64_t rank = x.rank();
  std::vector<int64_t> order = {0}, back = {0, rank - 1};
  for (int64_t i = 2; i < rank; ++i) {
    order.push_back(i);
    back.push_back(i - 1);
  }
  order.push_back(1);
  return permute(fn(permute(x, order), 1), back);
}

Formula window_sums(const Formula& x, int64_t first, const std::vector<Windows>& windows) {
  const Formula wide = padded(x, first, windows);
  std::vector<int64_t> kernel;
  for (const Windows& w : windows) kernel.push_back(w.kernel);
  std::optional<Formula> total;
  for_each_row(kernel, [&](const std::vector<int64_t>& at) {
    Dims start(wide.shape().size(), Dim(0)), end = wide.shape(), step(wide.shape().size(), Dim(1));
    for (size_t d = 0; d < windows.size(); ++d) {
      const size_t dim = static_cast<size_t>(first) + d;
      start[dim] = at[d];
      end[dim] = at[d] + (windows[d].out - 1) * windows[d].stride + 1;
      step[dim] = windows[d].stride;
    }
    const Formula part(slice_dims(wide.expr(), start, end, step));
    total = total ? *total + part : part;
  });
  return *total;
}

bool are_full(const std::vector<Windows>& windows, bool padded) {
  return std::all_of(windows.begin(), windows.end(), [&](const Windows& w) {
    const int64_t begin = -w.padding, end = (w.out - 1) * w.stride - w.padding + w.kernel;
    return padded ? end <= w.in + w.padding : begin >= 0 && end <= w.in;
  });
}

Formula window_sizes(const Formula& like, int64_t first, const std::vector<Windows>& windows, bool padded) {
  const Device device = like.expr().tensor().device;
  std::optional<Formula> total;
  for (size_t d = 0; d < windows.size(); ++d) {
    const Windows& w = windows[d];
    const Formula begin =
        steps(like.b(), w.out, static_cast<double>(-w.padding), static_cast<double>(w.stride), like.dtype(), device);
    const Formula end =
        minimum(begin + static_cast<double>(w.kernel), Arg(static_cast<double>(padded ? w.in + w.padding : w.in)));
    const Formula size = end - (padded ? begin : maximum(begin, Arg(0.0)));
    const Formula wide = spread_channels(size, like.shape(), first + static_cast<int64_t>(d));
    total = total ? *total * wide : wide;
  }
  return *total;
}

Formula sum_of_readers(int64_t first, const std::vector<Windows>& windows,
                       const std::function<Formula(const WindowGather&)>& value) {
  std::vector<int64_t> bounds;
  for (const Windows& w : windows) bounds.push_back(w.readers());
  std::optional<Formula> total;
  for_each_row(bounds, [&](const std::vector<int64_t>& row) {
    const Formula term = value([&](const Formula& x, const Arg& other) {
      Formula out = x;
      // In the order of the windows.
      for (size_t d = 0; d < windows.size(); ++d)
        out = reader(out, first + static_cast<int64_t>(d), windows[d], bounds[d] - 1 - row[d], other);
      return out;
    });
    total = total ? *total + term : term;
  });
  return *total;
}

Formula window_gradient(const Formula& g, int64_t first, const std::vector<Windows>& windows) {
  const bool apart = std::all_of(windows.begin(), windows.end(),
                                 [](const Windows& w) { return w.kernel == w.stride && w.padding == 0; });
  if (!apart) return sum_of_readers(first, windows, [&](const WindowGather& gather) { return gather(g, 0.0); });
  Formula out = g;
  ArgList config(g.shape().size(), Arg(Dims{Dim(0), Dim(0), Dim(0)}));
  bool any = false;
  for (size_t d = 0; d < windows.size(); ++d) {
    const Windows& w = windows[d];
    const int64_t dim = first + static_cast<int64_t>(d), rest = w.in - w.out * w.stride;
    out = repeat_each(out, dim, w.stride);
    if (rest < 0) out = Formula(slice_dim(out.expr(), dim, Dim(0), Dim(w.in)));
    if (rest > 0) config[static_cast<size_t>(dim)] = Arg(Dims{Dim(0), Dim(rest), Dim(0)});
    any = any || rest > 0;
  }
  return any ? Formula(out.b()("prims.pad", out, 0.0, Arg::list(std::move(config)))) : out;
}

Formula repeat_each(const Formula& x, int64_t dim, int64_t n) {
  if (n == 1) return x;
  Dims wide = x.shape(), out = x.shape();
  wide.insert(wide.begin() + dim + 1, Dim(n));
  out[static_cast<size_t>(dim)] = size_of(x, dim) * Dim(n);
  return Formula(reshape(x.b(), spread(x, wide, {dim + 1}), out));
}

Formula steps(Builder& b, int64_t n, double start, double step, DType t, Device device) {
  const bool whole = !is_floating(t);
  const Arg first = whole ? Arg(static_cast<int64_t>(start)) : Arg(start),
            by = whole ? Arg(static_cast<int64_t>(step)) : Arg(step);
  return Formula(b("prims.iota", n, first, by, kw("dtype", t), kw("device", device)));
}

}  // namespace thunder::ops
