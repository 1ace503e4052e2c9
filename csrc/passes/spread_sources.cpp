#include "passes/spread_sources.h"

#include <algorithm>
#include <vector>

#include "passes/passes.h"
#include "passes/rewriter.h"

namespace thunder {
namespace {

bool is_one(const Dim& d) { return d.is_constant() && d.constant() == 1; }

Dims without_ones(const Dims& shape) {
  Dims out;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(out), [](const Dim& d) { return !is_one(d); });
  return out;
}

class SourceSpreading {
 public:
  SourceSpreading(const Trace& trace, size_t forward_calls)
      : trace_(trace), forward_calls_(forward_calls), rewriter_(trace) {
    for (const Call* c : trace.calls)
      if (c->output.is_value()) maker_.set(c->output.value(), c);
  }

  Trace run() {
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      const Call& call = *trace_.calls[i];
      if (i >= forward_calls_) spread_again(call);
      for (const Call* c : rewriter_.current(&call)) rewriter_.builder.append(c);
    }
    return any_ ? without_dead_names(cse(rewriter_.finish(), forward_calls_, &made_)) : trace_;
  }

 private:
  // The backward's own names of the sources, which nothing reads any more, go; collectives stay, read or not.
  Trace without_dead_names(Trace out) const {
    ValueSet read;
    visit_values(out.output, [&](Value v) { read.set(v, 1); });
    for (size_t i = out.calls.size(); i-- > forward_calls_;) {
      const Call& call = *out.calls[i];
      const bool names = call.output.is_value() && (call.op->has(kView) || identity_source(call));
      if (names && !read[call.output.value()]) out.calls.erase(out.calls.begin() + static_cast<ptrdiff_t>(i));
      else visit_all_inputs(call, [&](Value v) { read.set(v, 1); });
    }
    return out;
  }

  // The same elements without dimensions of size 1, by the name that they had first; the value itself where it has none.
  Value source_of(Value v) const {
    const Dims sizes = without_ones(v.shape());
    Value found = v;
    for (const Call* c = maker_[v]; c; c = maker_[v]) {
      const bool view = c->op->full_name == "prims.view" || c->op->full_name == "prims.squeeze";
      const Value from = view ? c->arguments().value("a") : identity_source(*c);
      if (!from || !same(without_ones(from.shape()), sizes)) break;
      v = from;
      if (from.rank() == static_cast<int64_t>(sizes.size())) found = from;
    }
    return found;
  }

  void spread_again(const Call& call) {
    if (call.op->full_name != "prims.broadcast_in_dim" || call.arguments().flag("operand")) return;
    const Value a = call.arguments().value("a"), source = source_of(a), out = call.output.value();
    if (source == a || source.dtype() != a.dtype()) return;
    std::vector<int64_t> dims = call.arguments().integers("broadcast_dims"), kept;
    for (size_t i = 0; i < dims.size(); ++i)
      if (!is_one(a.shape()[i])) kept.push_back(dims[i]);
    Value again;
    const std::vector<const Call*> made = rewriter_.collect(
        call, [&] { again = rewriter_.builder("prims.broadcast_in_dim", source, out.shape(), Arg(kept)).value(); });
    if (!again.type().same(out.type(), false)) return;
    for (const Call* c : made) rewriter_.builder.append(c);
    rewriter_.replace(out, again);
    made_.set(again, 1);
    any_ = true;
  }

  const Trace& trace_;
  size_t forward_calls_;
  Rewriter rewriter_;
  ValueMap<const Call*> maker_;
  ValueSet made_;
  bool any_ = false;
};

}  // namespace

Trace spread_sources(const Trace& trace, size_t forward_calls) { return SourceSpreading(trace, forward_calls).run(); }

}  // namespace thunder
