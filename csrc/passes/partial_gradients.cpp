// Gradients inside of a program.
#include <algorithm>

#include "core/error.h"
#include "passes/reverse_mode.h"

namespace thunder {
namespace {

bool reads_any(const Call& call, const ValueSet& of) {
  bool any = false;
  for (const Arg& a : call.args) visit_values(a, [&](Value v) { any |= of[v] != 0; });
  return any;
}

// What depends on the inputs, as far as gradients flow; the values inside of calls, too.
void mark_dependent(const Call& call, ValueSet& dependent) {
  for (const Call* inner : call.body) mark_dependent(*inner, dependent);
  if (!reads_any(call, dependent)) return;
  visit_outputs(call, [&](Value v) {
    if (v.requires_grad()) dependent.set(v, 1);
  });
}

bool gives_any(const Call& call, const ReverseMode& mode) {
  bool any = false;
  visit_outputs(call, [&](Value v) { any |= mode.reaches(v); });
  return any;
}

}  // namespace

std::vector<const Call*> live_calls(const std::vector<const Call*>& calls, ValueSet& read) {
  std::vector<const Call*> live;
  for (auto it = calls.rbegin(); it != calls.rend(); ++it) {
    bool wanted = false;
    visit_outputs(**it, [&](Value v) { wanted |= read[v] != 0; });
    if (!wanted && !tags_within(**it, kCollective | kWrite | kState)) continue;
    visit_all_inputs(**it, [&](Value v) { read.set(v, 1); });
    live.push_back(*it);
  }
  std::reverse(live.begin(), live.end());
  return live;
}

PartialGradients partial_gradients(Builder& b, const std::vector<const Call*> calls,
                                   const std::vector<std::pair<Value, Value>>& seeds,
                                   const std::vector<Value>& inputs) {
  ValueSet dependent;
  for (Value v : inputs) dependent.set(v, 1);
  for (const Call* c : calls) mark_dependent(*c, dependent);
  PartialGradients out;
  ReverseMode mode(b, b.grad_enabled());
  b.open_scope();
  try {
    for (const auto& [result, gradient] : seeds) {
      const Arg before = mode.gradient_of(result);
      mode.seed(result, before.is_none() ? gradient : b("torch.add", before, gradient).value());
    }
    for (auto it = calls.rbegin(); it != calls.rend(); ++it) {
      if (!gives_any(**it, mode) || !reads_any(**it, dependent)) continue;
      mode.differentiate(**it);
      out.applied.push_back(*it);
    }
    for (Value v : inputs) out.gradients.push_back(mode.gradient_of(v));
  } catch (...) {
    b.close_scope();
    throw;
  }
  for (const Arg& g : out.gradients) visit_values(g, [&](Value v) { out.read.set(v, 1); });
  out.calls = live_calls(b.close_scope(), out.read);
  return out;
}

ValueSet reached_by_gradients(const std::vector<const Call*>& calls, const std::vector<Value>& results) {
  ValueSet reached;
  for (Value v : results) reached.set(v, 1);
  for (auto it = calls.rbegin(); it != calls.rend(); ++it) {
    bool any = false;
    visit_outputs(**it, [&](Value v) { any |= reached[v] && v.requires_grad(); });
    if (!any || (*it)->op->has(kNoGrad)) continue;
    for (const Arg& a : (*it)->args)
      visit_values(a, [&](Value v) {
        if (v.requires_grad()) reached.set(v, 1);
      });
  }
  return reached;
}

}  // namespace thunder
