#include "passes/laid_out.h"

#include <algorithm>
#include <array>

namespace thunder {
namespace {

// torch.view and its like refuse some layouts.
constexpr std::array<std::string_view, 14> kViewsOfAnyLayout = {
    "torch.permute",          "torch.transpose", "torch.t",       "torch.unsqueeze", "torch.squeeze",
    "torch.expand",           "torch.reshape",   "torch.flatten", "prims.transpose", "prims.squeeze",
    "prims.broadcast_in_dim", "prims.slice",     "torch.detach",  "prims.same"};

}  // namespace

bool has_known_layout(const TensorType& t) {
  auto known = [](const Dim& d) { return d.is_constant(); };
  return t.strides.size() == t.shape.size() && std::all_of(t.shape.begin(), t.shape.end(), known) &&
         std::all_of(t.strides.begin(), t.strides.end(), known);
}

bool lies_so(const TensorType& t, const Dims& strides) {
  for (size_t i = 0; i < strides.size(); ++i)
    if (!t.shape[i].same(1) && !t.strides[i].same(strides[i])) return false;
  return true;
}

bool is_permuted(const TensorType& t) {
  if (t.rank() < 2 || !has_known_layout(t) || is_contiguous(t) || t.numel().constant() == 0) return false;
  int64_t last = 1;
  for (size_t i = 0; i < t.shape.size(); ++i) {
    const int64_t n = t.shape[i].constant(), stride = t.strides[i].constant();
    if (n > 1 && stride < 1) return false;
    last += (n - 1) * stride;
  }
  return last == t.numel().constant();
}

bool is_indifferent(const Call& call) {
  if (effects(call) || call.op->has(kDataDependent) || !call.op->executor.empty()) return false;
  if (call.op->full_name == "torch.contiguous")
    return call.arguments()["memory_format"].constant().name == "torch.contiguous_format";
  return call.op->has(kPointwise) ||
         std::find(kViewsOfAnyLayout.begin(), kViewsOfAnyLayout.end(), call.op->full_name) != kViewsOfAnyLayout.end();
}

bool LaidOut::reads_any(const Call& call) const {
  bool reads = false;
  visit_all_inputs(call, [&](Value v) { reads |= static_cast<bool>(now_[v]); });
  return reads;
}

Arg LaidOut::as_it_was(Value v) {
  const Value now = now_[v];
  if (!v.type().is_tensor() || same(v.tensor().strides, now.tensor().strides)) return now;
  restored_.resize(std::max(restored_.size(), v.shape().size() + 1));
  ++restored_[v.shape().size()];
  return restrided(now, v.tensor().strides);
}

void LaidOut::again(const Call& call, bool indifferent) {
  Substitution inputs;
  visit_all_inputs(call, [&](Value v) {
    if (now_[v]) inputs.replace(v, indifferent ? Arg(now_[v]) : as_it_was(v));
  });
  const Call* renamed = substitute(*trace_.arena, &call, inputs);
  if (!indifferent) {
    rewriter.builder.append(renamed);
    return;
  }
  const Arg result = rewriter.builder.call(*call.op, renamed->args);
  const std::vector<Value> before = outputs_of(call);
  std::vector<Value> after;
  visit_values(result, [&](Value v) { after.push_back(v); });
  for (size_t i = 0; i < before.size() && i < after.size(); ++i) lay_out(before[i], after[i]);
}

Trace LaidOut::finish() {
  Substitution outputs;
  for (const Call* c : rewriter.collect(*trace_.calls.back(), [&] {
         visit_values(trace_.output, [&](Value v) {
           if (now_[v]) outputs.replace(v, as_it_was(v));
         });
       }))
    rewriter.builder.append(c);
  Trace out = trace_.derived();
  const Trace made = rewriter.builder.finish(trace_.name, outputs(trace_.output));
  out.calls = made.calls;
  out.output = made.output;
  return out;
}

}  // namespace thunder
