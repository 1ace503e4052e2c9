#include "passes/attention_layout.h"

#include <algorithm>

#include "ops/torch/attention.h"
#include "passes/rewriter.h"

namespace thunder {
namespace {

constexpr const char* kContiguous = "torch.contiguous";

// Of a [B, H, T, D] tensor, the strides of [B, T, H, D] in memory.
Dims heads_inside(const Dims& shape) {
  Dims strides = contiguous_strides({shape[0], shape[2], shape[1], shape[3]});
  std::swap(strides[1], strides[2]);
  return strides;
}

class Layouter {
 public:
  explicit Layouter(const Trace& trace) : trace_(trace), rewriter_(trace) {
    for (const Call* c : trace.calls) {
      visit_all_inputs(*c, [&](Value v) { readers_[v.id()].push_back(c); });
      visit_outputs(*c, [&](Value v) { made_.set(v, c); });
    }
    visit_values(trace.output, [&](Value v) { returned_.set(v, 1); });
  }

  Trace run() {
    for (const Call* call : trace_.calls) {
      const bool merged =
          ops::torch::is_attention(*call->op) && call->output.is_value() && is_merged(call->output.value());
      for (const Call* c : rewriter_.current(call)) {
        if (merged && ops::torch::is_attention(*c->op)) relayout(*c);
        else rewriter_.builder.append(c);
      }
    }
    return rewriter_.finish();
  }

 private:
  // transpose(1, 2), then a reshape that leaves the sizes before the heads as they are.
  bool is_merged(Value out) const {
    if (out.rank() != 4) return false;
    const Dims& s = out.shape();
    return all_readers(out, [&](const Call& transpose) {
      if (!transpose.output.is_value()) return false;
      Value t = transpose.output.value();
      const Dims &strides = out.tensor().strides, swapped = {strides[0], strides[2], strides[1], strides[3]};
      if (!same(t.shape(), {s[0], s[2], s[1], s[3]}) || !same(t.tensor().strides, swapped)) return false;
      return all_merge(t, {s[0], s[2], s[1] * s[3]});
    });
  }

  // Reshapes to these sizes, perhaps of a contiguous copy, which is none once the value is contiguous.
  bool all_merge(Value t, const Dims& merged) const {
    return all_readers(t, [&](const Call& reader) {
      if (!reader.output.is_value() || !reader.output.value().type().is_tensor()) return false;
      const Value out = reader.output.value();
      return reader.op->full_name == kContiguous ? all_merge(out, merged) : same(out.shape(), merged);
    });
  }

  template <class F>
  bool all_readers(Value v, F&& good) const {
    auto it = readers_.find(v.id());
    return it != readers_.end() && !returned_[v] &&
           std::all_of(it->second.begin(), it->second.end(), [&](const Call* c) { return good(*c); });
  }

  // Contiguous, and fresh from a computation: not a view, whose memory is there already, nor an input.
  bool is_fresh(const Arg& a) const {
    const Value v = a.value();
    const Call* maker = made_[v];
    return maker && v.rank() == 4 && is_contiguous(v.tensor()) && !same(v.tensor().strides, heads_inside(v.shape())) &&
           !is_pure_view(*maker);
  }

  // A part of something larger that attention alone would keep in memory until the backward, once query and key are
  // copies.
  bool keeps_more(const Arg& a) const {
    const Value v = a.value();
    const Call* maker = made_[v];
    if (!maker || v.rank() != 4 || !is_pure_view(*maker) || is_contiguous(v.tensor())) return false;
    return std::any_of(v.shape().begin(), v.shape().end(), [&](const Dim& n) {
      const size_t i = static_cast<size_t>(&n - v.shape().data());
      const Dim& stride = v.tensor().strides[i];
      return n.is_constant() && stride.is_constant() && v.tensor().numel().is_constant() &&
             n.constant() * stride.constant() >= 2 * v.tensor().numel().constant();
    });
  }

  // What a contiguous copy was made of, if its heads lie inside already.
  Value before_copy(Value v) const {
    const Call* maker = made_[v];
    if (!maker || maker->body.size() != 1 || maker->body[0]->op->full_name != "prims.clone" || v.rank() != 4) return {};
    const Value source = maker->body[0]->args[0].value();
    return same(source.tensor().strides, heads_inside(v.shape())) ? source : Value();
  }

  Arg laid_out(Value v) {
    if (const Value before = before_copy(v)) return before;
    return rewriter_.builder("prims.restride", v, heads_inside(v.shape())).arg();
  }

  void relayout(const Call& call) {
    ArgList args = call.args;
    const int query = call.op->schema.index_of("query"), key = call.op->schema.index_of("key");
    if (!is_fresh(args[static_cast<size_t>(query)])) return rewriter_.builder.append(&call);
    Arg result;
    std::vector<const Call*> made = rewriter_.collect(call, [&] {
      Builder& b = rewriter_.builder;
      for (int i : {query, key}) {
        Arg& a = args[static_cast<size_t>(i)];
        if (is_fresh(a)) a = laid_out(a.value());
      }
      Arg& value = args[static_cast<size_t>(call.op->schema.index_of("value"))];
      if (const Value before = before_copy(value.value())) value = before;
      if (value.value().requires_grad() && keeps_more(value))
        value = b("prims.restride", value, heads_inside(value.value().shape())).arg();
      result = b.call(*call.op, args);
    });
    rewriter_.replace_outputs(call, result, "attention_layout");
    for (const Call* c : made) rewriter_.builder.append(c);
  }

  const Trace& trace_;
  Rewriter rewriter_;
  std::unordered_map<ValueId, std::vector<const Call*>> readers_;
  ValueMap<const Call*> made_{nullptr};
  ValueSet returned_;
};

}  // namespace

Trace attention_layout(const Trace& trace) {
  for (const Call* call : trace.calls)
    if (ops::torch::is_attention(*call->op)) return Layouter(trace).run();
  return trace;
}

}  // namespace thunder
