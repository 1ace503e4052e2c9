#include "executors/aten/segments.h"

#include <ATen/ops/_assert_async.h>
#include <ATen/ops/_embedding_bag.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <vector>

namespace thunder::aten {
namespace {

at::Tensor bounds(const at::Tensor& sorted, int64_t count, bool right) {
  return at::searchsorted(sorted, at::arange(count, sorted.options()), /*out_int32=*/false, right);
}

// A weight, or a condition, for each slice along a dimension.
at::Tensor along(const at::Tensor& each, const at::Tensor& t, int64_t dim) {
  std::vector<int64_t> shape(static_cast<size_t>(t.dim()), 1);
  shape[static_cast<size_t>(dim)] = -1;
  return each.view(shape);
}

}  // namespace

c10::IValue group_index(const FunctionArgs& a) {
  const at::Tensor index = a.tensor(0).to(at::kLong);
  const int64_t groups = a.integer(1);
  at::Tensor inside = index.ge(0).logical_and(index.lt(groups)), numbers = index;
  if (a.value(2).toBool()) {
    inside = inside.logical_or(index.eq(-1));
    numbers = at::where(index.eq(-1), at::Scalar(groups), index);
  }
  at::_assert_async(inside.all(), "index out of range in self");
  auto [sorted, order] = at::sort(numbers, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  return std::vector<at::Tensor>{order, bounds(sorted, groups + 1, false)};
}

c10::IValue segment_sum(const FunctionArgs& a) {
  const at::Tensor &t = a.tensor(0), &places = a.tensor(1);
  const int64_t count = places.numel(), length = a.integer(5),
                dim = a.integer(4) < 0 ? a.integer(4) + t.dim() : a.integer(4),
                segments = a.is_none(2) ? count / length : a.tensor(2).numel() - 1;
  const at::ScalarType type = t.scalar_type(), sum_type = at::isReducedFloatingType(type) ? at::kFloat : type;
  std::vector<int64_t> shape = t.sizes().vec();
  shape[static_cast<size_t>(dim)] = segments;
  const at::Tensor sums = at::zeros(shape, t.options().dtype(sum_type));
  if (segments == 0 || count == 0 || t.size(dim) == 0) return sums.to(type);
  const at::Tensor segment =
      a.is_none(2) ? at::arange(count, places.options()).floor_divide(length) : bounds(a.tensor(2), count, true).sub(1);
  const at::Tensor counts = places.ge(0).logical_and(segment.ge(0)).logical_and(segment.lt(segments));
  at::Tensor slices = t.index_select(dim, a.value(6).toBool() ? places.clamp_min(0) : places).to(sum_type);
  if (!a.is_none(3)) slices = slices.mul(along(a.tensor(3), t, dim));
  slices = at::where(along(counts, t, dim), slices, at::Scalar(0)).to(sum_type);
  return sums.index_add(dim, segment.clamp(0, segments - 1), slices).to(type);
}

c10::IValue embedding_bag_max(const FunctionArgs& a) {
  constexpr int64_t kMax = 2;
  const at::Tensor& offsets = a.tensor(2);
  if (offsets.numel() == 0) {
    const at::Tensor none = at::zeros({0, a.tensor(0).size(1)}, a.tensor(0).options());
    return std::vector<at::Tensor>{none, none.to(at::kLong)};
  }
  auto [out, bag_of, sizes, rows] =
      at::_embedding_bag(a.tensor(0), a.tensor(1), offsets, false, kMax, false, {}, false, a.integer(3));
  return std::vector<at::Tensor>{out, at::where(sizes.gt(0).unsqueeze(1), rows, at::Scalar(-1)).to(at::kLong)};
}

}  // namespace thunder::aten
