#include "passes/distributed/late_waits.h"

#include <algorithm>

#include "passes/visit.h"

namespace thunder::distributed {
namespace {

bool is_wait(const Call& c) {
  return c.op->has(kComm) && c.args.size() == 1 && c.args[0].is_value() && c.args[0].value().type().is_future();
}

}  // namespace

bool has_waits(const Trace& trace) {
  return std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return is_wait(*c); });
}

Trace late_waits(const Trace& trace) {
  if (!has_waits(trace)) return trace;
  Trace out = trace.derived();
  ValueMap<const Call*> open;  // by what a wait gives
  std::vector<const Call*> waits;
  auto end = [&](const Call* wait) {
    visit_outputs(*wait, [&](Value v) { open.set(v, nullptr); });
    out.calls.push_back(wait);
  };
  for (const Call* c : trace.calls) {
    if (is_wait(*c)) {
      visit_outputs(*c, [&](Value v) { open.set(v, c); });
      waits.push_back(c);
      continue;
    }
    visit_all_inputs(*c, [&](Value v) {
      if (open[v]) end(open[v]);
    });
    out.calls.push_back(c);
  }
  for (const Call* w : waits) {
    bool is_open = false;
    visit_outputs(*w, [&](Value v) { is_open = is_open || open[v] == w; });
    if (is_open) end(w);
  }
  return out;
}

}  // namespace thunder::distributed
