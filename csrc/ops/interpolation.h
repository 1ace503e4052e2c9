// Resampling along one dimension, as PyTorch's CUDA kernels do it: each element of the result is a sum of few elements,
// and so is each element of the gradient.
//
//   y[j] = sum over k of weight_k(j) * x[place_k(j)]
//   dx[i] = sum over t of slope_t(i) * dy[first(i) + t]
//
// Places and weights are arithmetic on the number of the element: 1-d tensors, from which `prims.take` gathers, so that
// nothing is scattered.  Of several dimensions one is resampled after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "ops/formula.h"

namespace thunder::ops {

enum class Interpolation : uint8_t { Nearest, NearestExact, Linear, Cubic };

/// A dimension of `from` elements that becomes one of `to`.
struct Axis {
  Interpolation how;
  int64_t from, to;
  bool align_corners = false;
  double factor = 0;  ///< that the user gave, instead of the sizes' ratio; 0: none
  friend bool operator==(const Axis&, const Axis&) = default;
};

/// Nothing is done to the elements.
bool is_identity(const Axis& axis);
/// How many elements one of the result takes.
int64_t taps(const Axis& axis);
/// How many elements of the result's gradient one of the input's takes, at most; 0 where some place is none of the input's.
int64_t gradient_taps(const Axis& axis);

/// Resamples along one dimension after the other; dimensions of the same sizes share their places and weights.
class Resampler {
 public:
  /// `x`, in the dtype in which it is computed, resampled along a dimension.
  Formula forward(const Formula& x, int64_t dim, const Axis& axis);
  /// The gradient of the input, of the result's.
  Formula backward(const Formula& g, int64_t dim, const Axis& axis);

  struct Tap {
    Formula place;                  ///< int32
    std::optional<Formula> weight;  ///< 1 where there is none
  };
  /// For each element of the input, a column, those of the result that may take it.
  struct Readers {
    Formula places, weights;
  };

 private:
  std::vector<std::pair<Axis, std::vector<Tap>>> taps_;
  std::vector<std::pair<Axis, Readers>> readers_;
};

}  // namespace thunder::ops
