#include "passes/rerunnable.h"

#include "core/error.h"
#include "passes/autodiff.h"
#include "passes/passes.h"
#include "passes/rewriter.h"
#include "passes/visit.h"

namespace thunder {
namespace {

bool has_own_gradient(const Call& call) {
  const Op& op = *call.op;
  if (op.has(kAutograd)) return false;
  if (!op.executor.empty() || find_gradient_rule(op) || Registry::instance().find(op.full_name) != &op) return true;
  return std::any_of(call.body.begin(), call.body.end(), [](const Call* c) { return has_own_gradient(*c); });
}

std::string problem_of(const Trace& trace) {
  for (const Call* call : trace.calls) {
    const uint64_t effect = effects(*call);
    const std::string what = call->op->full_name + user_line(*call);
    if (effect & kRandom) return cat(what, " would draw other random numbers");
    if (effect & (kCollective | kWrite | kState)) return cat(what, " has effects");
    if (has_own_gradient(*call)) return cat(what, " has a gradient of its own");
  }
  return {};
}

bool carries(Value v) { return v.type().is_tensor() && v.tensor().requires_grad; }

bool reads_carrier(const Call& call) {
  bool reads = false;
  visit_all_inputs(call, [&](Value v) { reads |= carries(v); });
  return reads;
}

// `needed` grows by what the calls need for the values in it.
void add_needed(const std::vector<const Call*>& calls, ValueSet& needed) {
  for (size_t i = calls.size(); i-- > 0;) {
    const Call& call = *calls[i];
    bool wanted = false;
    visit_outputs(call, [&](Value v) { wanted |= needed[v] != 0; });
    if (!wanted) continue;
    if (!call.body.empty()) add_needed(call.body, needed);
    else visit_all_inputs(call, [&](Value v) { needed.set(v, 1); });
  }
}

}  // namespace

Rerunnable rerunnable(const Trace& trace, const std::vector<size_t>& outputs) {
  Trace chosen = trace;
  ArgList kept;
  for (size_t i : outputs) kept.push_back(trace.output.items().at(i));
  chosen.output = Arg::tuple(std::move(kept));
  // A draw of which nothing depends advances the generator, which the call itself has done.
  chosen = dce(chosen, /*keep_random=*/false);

  Rerunnable out{chosen, {}, problem_of(chosen)};
  ValueSet needed;
  visit_values(chosen.output, [&](Value v) { needed.set(v, 1); });
  add_needed(chosen.calls, needed);
  for (Value v : chosen.inputs) out.matters.push_back(needed[v]);

  Rewriter rewriter(chosen);
  PrimitiveMakers makers;
  for (const Call* call : chosen.calls) {
    for (const Call* c : rewriter.current(call)) rewriter.builder.append(c);
    if (!reads_carrier(*call)) continue;
    makers.add(*call);
    visit_outputs(*call, [&](Value v) {
      if (!v.type().is_tensor() || !is_inexact(v.tensor().dtype) || carries(v)) return;
      if (const Call* maker = makers.of(v); maker && maker->op->has(kNoGrad)) return;
      rewriter.replace(v, rewriter.builder("torch.detach", v));
    });
  }
  out.trace = rewriter.finish();
  return out;
}

}  // namespace thunder
