#include "passes/repeated.h"

namespace thunder {
namespace {

void count(const Call& call, ValueMap<int>& reads) {
  if (call.body.empty()) visit_inputs(call, [&](Value v) { reads.set(v, reads[v] + 1); });
  for (const Call* inner : call.body) count(*inner, reads);
}

}  // namespace

ValueSet visible_values(const Trace& trace) {
  ValueSet out;
  for (const Call* c : trace.calls) visit_outputs(*c, [&](Value v) { out.set(v, 1); });
  return out;
}

Repeated repeated_values(const std::vector<const Trace*>& traces, const ValueSet& visible) {
  Repeated out;
  ValueMap<int> reads(0);
  ValueSet made;
  for (const Trace* t : traces) {
    ValueSet here;
    for (const Call* c : t->calls) count(*c, reads);
    visit_values(t->output, [&](Value v) { reads.set(v, reads[v] + 1); });
    for (const Call* c : t->calls)
      visit_all_outputs(*c, [&](Value v) {
        if (here[v]) return;
        here.set(v, 1);
        if (made[v]) out.made.set(v, 1);
        made.set(v, 1);
      });
  }
  for (const Trace* t : traces)
    for (const Call* c : t->calls)
      visit_all_outputs(*c, [&](Value v) {
        if (visible[v] && (reads[v] > 1 || out.made[v])) out.read.set(v, 1);
      });
  return out;
}

}  // namespace thunder
