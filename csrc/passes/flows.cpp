#include "passes/flows.h"

#include <algorithm>

#include "passes/reach.h"
#include "passes/recorded_gradient.h"
#include "passes/visit.h"

namespace thunder {
namespace {

using Bits = std::unordered_map<Value, uint64_t, ValueHash>;

// Places of the parameters `gradients` and `flows`; nothing for a call that does not ask.
std::optional<std::pair<size_t, size_t>> asks(const Call& call) {
  if (call.op->executor.empty()) return std::nullopt;
  const std::vector<Param>& params = call.op->schema.params;
  auto place = [&](std::string_view name) {
    return static_cast<size_t>(
        std::find_if(params.begin(), params.end(), [&](const Param& p) { return p.name == name; }) - params.begin());
  };
  const size_t gradients = place("gradients"), flows = place("flows");
  if (gradients == params.size() || flows == params.size()) return std::nullopt;
  return std::pair(gradients, flows);
}

// What is known of the results' placeholders.
Bits of_placeholders(const Call& call, const RecordedGradient& rule, const Bits& bits) {
  const std::vector<Value> then = values_in(rule.output), now = values_in(call.output);
  Bits out;
  for (const auto& [result, placeholder] : rule.placeholders)
    for (size_t i = 0; i < then.size(); ++i)
      if (auto it = then[i] == result ? bits.find(now[i]) : bits.end(); it != bits.end())
        out.emplace(placeholder, it->second);
  return out;
}

const Call* marked(const Call* call, Arena& arena, const Bits& bits) {
  if (call->op->level != "augmented") return call;
  const auto& rule = *static_cast<const RecordedGradient*>(call->op->context);
  if (std::none_of(rule.backward.begin(), rule.backward.end(), [](const Call* c) { return asks(*c).has_value(); }))
    return call;
  const Bits known = of_placeholders(*call, rule, bits);
  auto copy = std::make_shared<RecordedGradient>(rule);
  for (const Call*& made : copy->backward) {
    const auto places = asks(*made);
    if (!places) continue;
    ArgList flows;
    for (Value v : values_in(made->args[places->first])) {
      auto it = known.find(v);
      flows.emplace_back(it == known.end() ? int64_t{0} : static_cast<int64_t>(it->second));
    }
    Call again = *made;
    again.args[places->second] = Arg::list(std::move(flows));
    made = arena.make_call(std::move(again));
  }
  Call again = *call;
  const std::string name = call->op->full_name.substr(call->op->full_name.find('.') + 1);
  again.op = &operator_of(arena, std::move(copy), name, call->op->schema.params, call->op->schema.results);
  return arena.make_call(std::move(again));
}

}  // namespace

Trace mark_flows(const Trace& trace, const std::vector<size_t>& differentiable) {
  const bool any = std::any_of(trace.calls.begin(), trace.calls.end(),
                               [](const Call* call) { return call->op->level == "augmented"; });
  if (!any) return trace;
  const Bits bits = reached_from_values(trace, differentiable);
  Trace out = trace;
  for (const Call*& call : out.calls) call = marked(call, *trace.arena, bits);
  return out;
}

}  // namespace thunder
