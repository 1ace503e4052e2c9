#include <algorithm>
#include <optional>
#include <unordered_set>

#include "core/rewrite.h"
#include "passes/passes.h"
#include "passes/visit.h"

namespace thunder {

bool binds_size_of(const Call& call, const ValueSet& live) {
  bool binds = false, any = false;
  visit_outputs(call, [&](Value v) { binds |= bound_symbol(v).has_value(); });
  if (binds) visit_inputs(call, [&](Value v) { any |= live[v] != 0; });
  return any;
}

namespace {

// What later passes record is to read symbols from values that are left.
void bind_symbols(const Trace& trace) {
  std::unordered_set<SymbolId> bound;
  auto bind = [&](Value v) {
    const std::optional<SymbolId> s = bound_symbol(v);
    if (s && bound.insert(*s).second) trace.arena->bind(*s, v);
  };
  for (Value v : trace.inputs) bind(v);
  for (const Call* c : trace.calls) visit_outputs(*c, bind);
}

}  // namespace

Trace dce(const Trace& trace, bool keep_random) {
  const uint64_t kept = kWrite | kCollective | kInput | (keep_random ? kRandom : kNoTag);
  ValueSet read;
  visit_values(trace.output, [&](Value v) { read.set(v, 1); });
  Trace out = trace.derived();
  for (auto it = trace.calls.rbegin(); it != trace.calls.rend(); ++it) {
    const Call& call = **it;
    bool live = false;
    visit_outputs(call, [&](Value v) { live |= read[v] != 0; });
    if (!live) live = binds_size_of(call, read);
    if (!live && !tags_within(call, kept)) continue;
    visit_inputs(call, [&](Value v) { read.set(v, 1); });
    out.calls.push_back(&call);
  }
  std::reverse(out.calls.begin(), out.calls.end());
  if (trace.arena->has_symbols()) bind_symbols(out);
  return out;
}

}  // namespace thunder
