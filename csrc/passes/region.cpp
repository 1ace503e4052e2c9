#include "passes/region.h"

#include <algorithm>
#include <unordered_set>

#include "core/error.h"
#include "passes/visit.h"

namespace thunder {
namespace {

using CallSet = std::unordered_set<const Call*>;

std::vector<const Call*> in_trace_order(const Trace& trace, const CallSet& members) {
  std::vector<const Call*> out;
  for (const Call* c : trace.calls)
    if (members.count(c)) out.push_back(c);
  return out;
}

RegionValues values_of(const Trace& trace, const CallSet& members) {
  RegionValues out;
  ValueSet made, seen, read_outside;
  for (const Call* c : trace.calls)
    if (!members.count(c)) visit_all_inputs(*c, [&](Value v) { read_outside.set(v, 1); });
  visit_values(trace.output, [&](Value v) { read_outside.set(v, 1); });
  for (const Call* c : trace.calls) {
    if (!members.count(c)) continue;
    visit_all_inputs(*c, [&](Value v) {
      if (made[v] || seen[v]) return;
      seen.set(v, 1);
      out.inputs.push_back(v);
    });
    visit_outputs(*c, [&](Value v) {
      if (!made[v] && !seen[v] && read_outside[v]) out.outputs.push_back(v);
      made.set(v, 1);
    });
  }
  return out;
}

// Puts calls in an order in which each comes after what it needs, by asking for each in the trace's order.
class DependencyOrder {
 public:
  DependencyOrder(const Trace& trace, const CallSet& members, const Call* region) : region_(region) {
    const Call* effect = nullptr;
    for (const Call* c : trace.calls) {
      const Call* node = members.count(c) ? region : c;
      visit_outputs(*c, [&](Value v) {
        if (!maker_[v]) maker_.set(v, node);
      });
      if (effects(*c)) {
        if (effect && effect != node) after_.emplace_back(node, effect);
        effect = node;
      }
    }
  }

  void place(const Call* call) {
    if (done_.count(call)) return;
    THUNDER_CHECK(open_.insert(call).second, Value, region_->op->name,
                  "a call of the region needs a call outside of it that needs "
                  "a call of the region: they cannot be replaced by one call");
    visit_all_inputs(*call, [&](Value v) {
      if (const Call* maker = maker_[v]; maker && maker != call) place(maker);
    });
    for (const auto& [later, earlier] : after_)
      if (later == call) place(earlier);
    done_.insert(call);
    calls.push_back(call);
  }

  std::vector<const Call*> calls;

 private:
  const Call* region_;
  ValueMap<const Call*> maker_{nullptr};
  std::vector<std::pair<const Call*, const Call*>> after_;
  CallSet done_, open_;
};

}  // namespace

RegionValues region_values(const Trace& trace, const std::vector<const Call*>& region) {
  return values_of(trace, CallSet(region.begin(), region.end()));
}

Trace replace_region(const Trace& trace, const std::vector<const Call*>& region, std::unique_ptr<Op> op) {
  CallSet members(region.begin(), region.end());
  std::vector<const Call*> body = in_trace_order(trace, members);
  THUNDER_CHECK(!body.empty() && body.size() == members.size(), Value, op->name,
                "the calls of the region are not all in the trace");
  RegionValues values = values_of(trace, members);
  op->schema.params.clear();
  ArgList args;
  for (size_t i = 0; i < values.inputs.size(); ++i) {
    Param p;
    p.name = cat("a", i);
    op->schema.params.push_back(std::move(p));
    args.push_back(values.inputs[i]);
  }
  ArgList outputs(values.outputs.begin(), values.outputs.end());
  op->schema.results = "any";
  const Op& owned = trace.arena->own(std::move(op));
  const Call* call = trace.arena->make_call(Call{.op = &owned,
                                                 .args = std::move(args),
                                                 .output = Arg::tuple(std::move(outputs)),
                                                 .body = std::move(body),
                                                 .location = nullptr,
                                                 .symbols = {}});
  DependencyOrder scheduler(trace, members, call);
  for (const Call* c : trace.calls)
    if (!members.count(c)) scheduler.place(c);
    else if (c == call->body.back()) scheduler.place(call);
  Trace out = trace.derived();
  out.calls = std::move(scheduler.calls);
  return out;
}

}  // namespace thunder
