#include "executors/aten/float8.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/stack.h>

#include <vector>

#include "ops/prims/float8.h"

namespace thunder::aten {
namespace {

using float8_history::kGradient;
constexpr double kLargest[] = {448, 57344};  // of e4m3 and e5m2

}  // namespace

c10::IValue float8_scales(const FunctionArgs& a) {
  const at::Tensor seen = a.tensor(0).amax(-1);
  const at::Tensor forward = seen.narrow(1, 0, kGradient), gradients = seen.narrow(1, kGradient, 1);
  const at::Tensor never = seen.eq(0);
  forward.div_(kLargest[0]);
  gradients.div_(kLargest[1]);
  const at::Tensor out = at::empty_strided({seen.numel()}, {float8_history::kScaleDistance}, seen.options());
  return out.copy_(seen.masked_fill_(never, 1).view(-1));
}

// Runs of neighbouring places are one write each; mostly that is all of them.
c10::IValue float8_record(const FunctionArgs& a) {
  const at::Tensor& history = a.tensor(0);
  const Ints places = a.ints(2);
  std::vector<at::Tensor> maxima;
  for (size_t i = 0; i < a.length(1); ++i) maxima.push_back(a.element(1, i).toTensor());
  if (maxima.empty()) return {};
  const at::Tensor seen = at::stack(maxima).nan_to_num_(0, 0, 0).unsqueeze(1),
                   rows = history.view({-1, history.size(2)});
  for (size_t first = 0, last; first < places.size(); first = last) {
    for (last = first + 1; last < places.size() && places[last] == places[last - 1] + 1;) ++last;
    const auto n = static_cast<int64_t>(last - first);
    const at::Tensor run = rows.narrow(0, places[first], n);
    run.copy_(at::cat({seen.narrow(0, static_cast<int64_t>(first), n), run.narrow(1, 0, run.size(1) - 1)}, 1));
  }
  return {};
}

}  // namespace thunder::aten
