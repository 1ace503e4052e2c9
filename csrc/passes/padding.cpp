#include "passes/padding.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "passes/passes.h"

namespace thunder {

bool is_constant(const TensorType& t) {
  auto known = [](const Dim& d) { return d.is_constant(); };
  return std::all_of(t.shape.begin(), t.shape.end(), known) && std::all_of(t.strides.begin(), t.strides.end(), known);
}

double bytes(const TensorType& t) { return static_cast<double>(t.numel().constant() * itemsize(t.dtype)); }

bool is_16_bit(DType t) { return t == DType::bf16 || t == DType::f16; }

Expr padded_to(Builder& b, Value v, const std::vector<int64_t>& sizes) {
  ArgList config;
  for (size_t i = 0; i < sizes.size(); ++i)
    config.push_back(Arg(Dims{Dim(0), Dim(sizes[i] - v.shape()[i].constant()), Dim(0)}));
  return b("prims.pad", v, 0, Arg::list(std::move(config)));
}

Arg narrowed(const Expr& wide, const TensorType& out) {
  Expr part = wide;
  if (!same(wide.shape(), out.shape)) {
    const Dims start(out.shape.size(), Dim(0)), step(out.shape.size(), Dim(1));
    part = wide.builder()("prims.slice", wide, start, out.shape, step);
  }
  if (same(part.tensor().strides, out.strides)) return part.arg();
  return wide.builder()("prims.restride", part, out.strides).arg();
}

Value ValueMakers::behind_views(Value v) const {
  for (const Call* view = makers_[v]; view && is_pure_view(*view) && view->args[0].is_tensor(); view = makers_[v])
    v = view->args[0].value();
  return v;
}

bool ValueMakers::is_computed(Value v) const {
  const Call* maker = makers_[behind_views(v)];
  return maker && maker->op->executor.empty() && !(maker->op->tags & (kMatmul | kInput));
}

Trace without_dead_code(const Trace& trace, size_t& boundary) {
  Trace out = dce(trace);
  const std::unordered_set<const Call*> live(out.calls.begin(), out.calls.end());
  boundary =
      static_cast<size_t>(std::count_if(trace.calls.begin(), trace.calls.begin() + static_cast<ptrdiff_t>(boundary),
                                        [&](const Call* c) { return live.contains(c); }));
  return out;
}

double seconds_of_copy(const TensorType& t, const AlignmentCosts& costs) {
  return 2 * bytes(t) * costs.byte + costs.launch;
}

}  // namespace thunder
