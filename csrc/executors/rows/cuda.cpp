#include "executors/rows/cuda.h"

#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/warning.h"
#include "fuser/emit.h"
#include "fuser/row_kernels.h"
#include "runtime/allocate.h"
#include "runtime/convert.h"
#include "runtime/cuda_module.h"
#include "runtime/kernels/current_stream.h"

namespace thunder::rows {

namespace texts = fuser::rows;

namespace {

// Null, after a warning, if it cannot be compiled.
const CudaKernel* find(CudaModule& module, const std::string& name, int device) {
  std::string why;
  const CudaKernel* kernel = module.find(name, device, &why);
  if (!kernel && cuda_available())
    warn_once("rows", cat("[rows] sums by an index are left to PyTorch, their kernels cannot be compiled: ", why));
  return kernel;
}

std::shared_ptr<CudaModule> module_of(const std::string& text) {
  return CudaModule::of("rows", fuser::cuda_prelude() + text);
}

at::Tensor make(const std::vector<int64_t>& shape, at::ScalarType type) {
  return allocate(c10::DeviceType::CUDA, shape, type);
}

unsigned blocks(int64_t threads) {
  return static_cast<unsigned>(std::max<int64_t>((threads + texts::kThreads - 1) / texts::kThreads, 1));
}

// Where a tensor's elements are; null for none.
const void* memory(const at::Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }

// A kernel with arguments that are pointers and numbers.
template <class... A>
void launch(const CudaKernel& kernel, int device, CudaDim grid, A... arguments) {
  void* params[] = {static_cast<void*>(&arguments)...};
  kernel.launch(device, grid, {texts::kThreads}, 0, current_cuda_stream(device), params);
}

}  // namespace

// ---- where each number stands ---------------------------------------------------------------------------------------

CudaGroup::CudaGroup(DType index)
    : short_(module_of(texts::group_text(index, true))), long_(module_of(texts::group_text(index, false))) {}

std::optional<std::vector<at::Tensor>> CudaGroup::run(const GroupOperands& o) const {
  const c10::OptionalDeviceGuard guard(o.index.device());
  const int device = o.index.device().index(), skips = o.skips ? 1 : 0;
  const int64_t n = o.index.numel();
  if (n >= INT32_MAX / 2 || o.groups >= INT32_MAX) return std::nullopt;
  const at::TensorOptions longs = o.index.options().dtype(at::kLong);
  if (n == 0) return std::vector<at::Tensor>{at::zeros({0}, longs), at::zeros({o.groups + 1}, longs)};
  const bool placed = n <= texts::kMostPlaced, short_keys = !placed && texts::has_short_keys(o.groups);
  CudaModule& module = short_keys ? *short_ : *long_;
  const CudaKernel *first = find(module, placed ? "rows_tiles" : "rows_keys", device),
                   *place = placed ? find(module, "rows_places", device) : first,
                   *find_starts = find(module, "rows_starts", device);
  if (!first || !place || !find_starts) return std::nullopt;
  const int count = static_cast<int>(n);
  at::Tensor keys = make({n}, short_keys ? at::kShort : at::kInt), order, starts = make({o.groups + 1}, at::kLong);
  if (placed) {
    const at::Tensor tiles = make({n}, at::kInt), from = make({n}, at::kInt);
    order = make({n}, at::kLong);
    const auto number_of_tiles = static_cast<unsigned>((n + texts::kTile - 1) / texts::kTile);
    launch(*first, device, {number_of_tiles}, memory(o.index), memory(tiles), memory(from), count, o.groups, skips);
    launch(*place, device, {blocks(n * texts::kPlacedBy)}, memory(tiles), memory(from), memory(order), memory(keys),
           count);
  } else {
    launch(*first, device, {blocks(n)}, memory(o.index), memory(keys), count, o.groups, skips);
    std::tie(keys, order) = at::sort(keys, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  }
  launch(*find_starts, device, {blocks(o.groups + 1)}, memory(keys), memory(starts), count, o.groups);
  return std::vector<at::Tensor>{std::move(order), std::move(starts)};
}

// ---- sums -----------------------------------------------------------------------------------------------------------

CudaSum::CudaSum(DType t) : type_(t), module_(module_of(texts::sum_text(t))) {}

std::optional<at::Tensor> CudaSum::run(const SumOperands& o) const {
  constexpr int64_t kMostBlocks = 65535;  // along y
  const c10::OptionalDeviceGuard guard(o.a.device());
  const int device = o.a.device().index(), skips = o.skips ? 1 : 0;
  at::Tensor out = make(o.shape, to_aten(type_));
  if (out.numel() == 0) return out;
  const int64_t lanes = texts::lanes_of(type_), count = o.places.numel(), heavy = texts::heavy_of(count);
  const auto divides = [&](int64_t n) { return n % lanes == 0; };
  const bool vectors = divides(o.inner) && divides(o.slice_stride) && divides(o.outer > 1 ? o.outer_stride : 0) &&
                       reinterpret_cast<uintptr_t>(memory(o.a)) % 16 == 0;
  const std::string suffix = vectors ? "" : "_1";
  const int64_t chunks = vectors ? o.inner / lanes : o.inner, parts_of_places = (count + heavy - 1) / heavy;
  const unsigned y = static_cast<unsigned>(std::min(o.outer, kMostBlocks));
  const auto start = [&](const CudaKernel& kernel, int64_t threads, auto... rest) {
    launch(kernel, device, {blocks(threads), y}, memory(o.a), memory(o.places), memory(o.starts), memory(o.weights),
           rest..., o.slices, o.slice_stride, o.outer, o.outer_stride, o.inner, count, o.segments, o.length, heavy,
           skips);
  };
  const CudaKernel* sum = find(*module_, "rows_sum" + suffix, device);
  if (!sum) return std::nullopt;
  at::Tensor parts;
  // Where no segment can be long there is nothing to cut.
  if (count > heavy && (o.length == 0 || o.length > heavy)) {
    const CudaKernel* cut = find(*module_, "rows_parts" + suffix, device);
    if (!cut) return std::nullopt;
    const at::ScalarType numbers = !is_floating(type_) ? at::kLong : type_ == DType::f64 ? at::kDouble : at::kFloat;
    parts = make({o.outer * parts_of_places * 2 * o.inner}, numbers);
    start(*cut, parts_of_places * chunks, memory(parts));
  }
  start(*sum, o.segments * chunks, memory(parts), memory(out));
  return out;
}

}  // namespace thunder::rows
