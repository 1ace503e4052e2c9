#include "passes/row_major.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/rewrite.h"
#include "passes/rewriter.h"

namespace thunder {
namespace {

// Their first operand is read along its last dimension.
constexpr std::array<std::string_view, 5> kAlongRows = {"torch.layer_norm", "torch.native_layer_norm", "torch.rms_norm",
                                                        "torch.linear", "torch.softmax"};

// Views of any layout, and reshape, which copies where it has to.  torch.view and its like refuse some layouts.
constexpr std::array<std::string_view, 12> kViewsOfAnyLayout = {
    "torch.permute", "torch.transpose", "torch.t",         "torch.unsqueeze", "torch.squeeze",          "torch.expand",
    "torch.reshape", "torch.flatten",   "prims.transpose", "prims.squeeze",   "prims.broadcast_in_dim", "prims.slice"};

template <size_t N>
bool is_one_of(const Call& call, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), call.op->full_name) != names.end();
}

bool walks_along_rows(const Call& call) { return is_one_of(call, kAlongRows); }

bool is_constant(const TensorType& t) {
  auto known = [](const Dim& d) { return d.is_constant(); };
  return t.strides.size() == t.shape.size() && std::all_of(t.shape.begin(), t.shape.end(), known) &&
         std::all_of(t.strides.begin(), t.strides.end(), known);
}

// All elements without gaps, but not by rows.
bool is_permuted(const TensorType& t) {
  if (t.rank() < 2 || !is_constant(t) || is_contiguous(t) || t.numel().constant() == 0) return false;
  int64_t last = 1;
  for (size_t i = 0; i < t.shape.size(); ++i) {
    const int64_t n = t.shape[i].constant(), stride = t.strides[i].constant();
    if (n > 1 && stride < 1) return false;
    last += (n - 1) * stride;
  }
  return last == t.numel().constant();
}

// Values, not where they lie, make the results.
bool is_indifferent(const Call& call) {
  if (effects(call) || call.op->has(kDataDependent) || !call.op->executor.empty()) return false;
  return call.op->has(kPointwise) || is_one_of(call, kViewsOfAnyLayout) || walks_along_rows(call);
}

class RowMajor {
 public:
  explicit RowMajor(const Trace& trace) : trace_(trace), rewriter_(trace) {
    for (const Call* c : trace.calls) visit_inputs(*c, [&](Value v) { readers_[v.id()].push_back(c); });
  }

  Trace run() {
    for (const Call* call : trace_.calls)
      for (const Call* c : changed(*call)) rewriter_.builder.append(c);
    if (!any_) return trace_;
    Substitution outputs;
    for (const Call* c : rewriter_.collect(*trace_.calls.back(), [&] {
           visit_values(trace_.output, [&](Value v) {
             if (laid_out_[v]) outputs.replace(v, as_it_was(v));
           });
         }))
      rewriter_.builder.append(c);
    Trace out = trace_.derived();
    const Trace made = rewriter_.builder.finish(trace_.name, outputs(trace_.output));
    out.calls = made.calls;
    out.output = made.output;
    return out;
  }

 private:
  // The call over what its inputs are now, and a row-major form of its result where that is wanted.
  std::vector<const Call*> changed(const Call& call) {
    bool reads = false;
    visit_inputs(call, [&](Value v) { reads |= static_cast<bool>(laid_out_[v]); });
    const bool seed = wants_rows(call);
    if (!reads && !seed) return {&call};
    any_ = true;
    if (!reads) {
      std::vector<const Call*> made = {&call};
      const Value out = call.output.value();
      for (const Call* c : rewriter_.collect(call, [&] { lay_out(out, by_rows(out)); })) made.push_back(c);
      return made;
    }
    return rewriter_.collect(call, [&] { again(call); });
  }

  void again(const Call& call) {
    const bool indifferent = is_indifferent(call);
    Substitution now;
    visit_inputs(call, [&](Value v) {
      if (laid_out_[v]) now.replace(v, indifferent ? Arg(laid_out_[v]) : as_it_was(v));
    });
    const Call* renamed = substitute(*trace_.arena, &call, now);
    if (!indifferent) {
      rewriter_.builder.append(renamed);
      return;
    }
    const Arg result = rewriter_.builder.call(*call.op, renamed->args);
    const std::vector<Value> before = outputs_of(call);
    std::vector<Value> after;
    visit_values(result, [&](Value v) { after.push_back(v); });
    for (size_t i = 0; i < before.size() && i < after.size(); ++i) lay_out(before[i], after[i]);
  }

  void lay_out(Value before, Value now) { laid_out_.set(before, now); }

  Value by_rows(Value v) { return rewriter_.builder("prims.restride", v, contiguous_strides(v.shape())).value(); }

  // The value with the strides that it had, which is itself where they are the same.
  Arg as_it_was(Value v) {
    const Value now = laid_out_[v];
    if (!v.type().is_tensor() || same(v.tensor().strides, now.tensor().strides)) return now;
    return rewriter_.builder("prims.restride", now, v.tensor().strides).arg();
  }

  bool wants_rows(const Call& call) const {
    if (!call.op->has(kPointwise) || !call.output.is_value() || !call.output.value().type().is_tensor()) return false;
    const Value out = call.output.value();
    if (!is_permuted(out.tensor())) return false;
    bool one_is_by_rows = false;
    visit_inputs(call, [&](Value v) {
      one_is_by_rows |= v.type().is_tensor() && is_constant(v.tensor()) && is_contiguous(v.tensor()) && v.rank() >= 2 &&
                        v.shape().back().same(out.shape().back());
    });
    const auto it = readers_.find(out.id());
    return one_is_by_rows && it != readers_.end() &&
           std::any_of(it->second.begin(), it->second.end(), [&](const Call* c) {
             return walks_along_rows(*c) && c->args[0].is_value() && c->args[0].value() == out;
           });
  }

  const Trace& trace_;
  Rewriter rewriter_;
  std::unordered_map<ValueId, std::vector<const Call*>> readers_;
  ValueMap<Value> laid_out_;  // what stands for a value from here on
  bool any_ = false;
};

}  // namespace

Trace row_major(const Trace& trace) { return trace.calls.empty() ? trace : RowMajor(trace).run(); }

}  // namespace thunder
