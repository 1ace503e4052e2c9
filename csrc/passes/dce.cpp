#include <algorithm>
#include <optional>

#include "core/rewrite.h"
#include "passes/passes.h"
#include "passes/visit.h"

namespace thunder {

void LiveValues::add(Value v) {
  if (values_[v]) return;
  values_.set(v, 1);
  if (!v.type().is_tensor()) return;
  for (const Dim& d : v.shape())
    if (!d.is_constant())
      for (SymbolId s : d.symbols()) lengths_.insert(s);
}

bool LiveValues::need_size_from(const Call& call) {
  bool binds = false, needed = false;
  visit_outputs(call, [&](Value v) {
    const std::optional<SymbolId> s = bound_symbol(v);
    if (!s) return;
    binds = true;
    needed = needed || values_[v] || (lengths_.count(*s) && !bound_.count(*s));
  });
  if (binds && !needed) visit_all_inputs(call, [&](Value v) { needed = needed || values_[v]; });
  if (needed)
    visit_outputs(call, [&](Value v) {
      if (const std::optional<SymbolId> s = bound_symbol(v)) bound_.insert(*s);
    });
  return needed;
}

namespace {

// The start of a communication, which other processes make as well; the wait for it may go.
bool is_start(const Call& c) { return c.op->has(kComm) && c.output.is_value() && c.output.value().type().is_future(); }

}  // namespace

Trace dce(const Trace& trace, bool keep_random) {
  const uint64_t kept = kWrite | kState | kCollective | kInput | (keep_random ? kRandom : kNoTag);
  LiveValues read;
  visit_values(trace.output, [&](Value v) { read.add(v); });
  Trace out = trace.derived();
  for (auto it = trace.calls.rbegin(); it != trace.calls.rend(); ++it) {
    const Call& call = **it;
    bool live = read.need_size_from(call);
    visit_outputs(call, [&](Value v) { live = live || read[v]; });
    if (!live && !is_start(call) && !tags_within(call, kept)) continue;
    visit_all_inputs(call, [&](Value v) { read.add(v); });
    out.calls.push_back(&call);
  }
  std::reverse(out.calls.begin(), out.calls.end());
  // What later passes record is to read symbols from values that are left.
  if (trace.arena->has_symbols()) bind_symbols(out);
  return out;
}

}  // namespace thunder
