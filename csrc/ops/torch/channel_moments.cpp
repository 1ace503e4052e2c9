#include "ops/torch/channel_moments.h"

#include "ops/shape_common.h"

namespace thunder::ops::torch {

Formula median(const Formula& p, const Formula& q, const Formula& r) {
  return maximum(minimum(p, q), minimum(maximum(p, q), r));
}

std::pair<Formula, Formula> moments_about(const Formula& columns, const Formula& about,
                                          const std::vector<int64_t>& dims, const Dim& count) {
  Formula d = columns - spread(about, columns.shape(), dims);
  Formula off = sum(d, dims).call("prims.div", Arg(count)), square = sum(d * d, dims).call("prims.div", Arg(count));
  return {about + off, maximum(square - off * off, 0.0)};
}

Expr suggested_layout(Builder& b, const Arg& x) {
  const TensorType& t = x.value().tensor();
  if (!suggests_channels_last(t)) return contiguous(b, x);
  return b("torch.contiguous", x, kw("memory_format", channels_last_format(t)));
}

DType statistics_beside(const Args& a, const std::vector<const char*>& names) {
  const DType own = a.tensor("input").dtype;
  for (const char* name : names)
    if (a.op().schema.index_of(name) >= 0 && a.has(name) && a.tensor(name).dtype != own) return DType::f32;
  return own;
}

}  // namespace thunder::ops::torch
