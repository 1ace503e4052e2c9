// Windows over the last dimensions (pooling), as gathers: what an element of a result reads, and what reads an element.
//
// For kernels on a GPU, with sizes that are known.  A window begins at stride * j - padding; what it has outside of the
// input counts as zero.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/formula.h"

namespace thunder::ops {

/// Windows along one dimension.
struct Windows {
  int64_t in, out, kernel, stride, padding;
  /// How many windows may have an element in them.
  int64_t readers() const { return (kernel + stride - 1) / stride; }
};

/// Works on a tensor whose dimensions are in the order of the result's memory: fn(tensor, the dimension behind the
/// channels there).  `channels_last`: of a tensor [N, C, ...].
Expr in_memory_order(const Expr& x, bool channels_last, const std::function<Expr(const Expr&, int64_t)>& fn);

/// The sum of each window; the windows' dimensions are those from `first` on.
Formula window_sums(const Formula& x, int64_t first, const std::vector<Windows>& windows);
/// How many elements each window has, as the dtype and the shape of `like`: with `padded`, those of the padding are counted.
Formula window_sizes(const Formula& like, int64_t first, const std::vector<Windows>& windows, bool padded);
/// Whether all windows have all of their elements.
bool are_full(const std::vector<Windows>& windows, bool padded);

/// For each element of the input the sum of `value` over the windows that it may be in.  `value(gather)` gives what a
/// window has for it: gather(tensor, other) is the tensor's element of that window, or `other` where there is no window.
using WindowGather = std::function<Formula(const Formula&, const Arg&)>;
Formula sum_of_readers(int64_t first, const std::vector<Windows>& windows,
                       const std::function<Formula(const WindowGather&)>& value);

/// The sum, for each element of the input, of what the windows have that it is in.
Formula window_gradient(const Formula& g, int64_t first, const std::vector<Windows>& windows);

/// Each element n times in a row.
Formula repeat_each(const Formula& x, int64_t dim, int64_t n);
/// Numbers start, start + step, ...: the whole ones are of an integer type.
Formula steps(Builder& b, int64_t n, double start, double step, DType t, Device device);

}  // namespace thunder::ops
