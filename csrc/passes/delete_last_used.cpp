#include <algorithm>

#include "passes/passes.h"
#include "passes/visit.h"

namespace thunder {
namespace {

const Call* make_del(Arena& arena, const std::vector<Value>& values) {
  static const Op& python_del = Registry::instance().get("prims.python_del");
  return arena.make_call(Call{.op = &python_del, .args = {Arg(values)}, .output = {}, .body = {}, .symbols = {}});
}

// Symbols that a body reads from outside: they count as long as no executor has taken the call whole, for then the body
// is what will run.
template <class F>
void visit_body_symbols(const Call& call, F&& fn) {
  if (!call.op->executor.empty()) return;
  for (const Call* inner : call.body) {
    for (Value v : inner->symbols) fn(v);
    visit_body_symbols(*inner, fn);
  }
}

}  // namespace

Trace delete_last_used(const Trace& trace) {
  ValueSet alive;      // needed by something later
  ValueSet top_level;  // what a `del` may name
  for (const Call* c : trace.calls) visit_outputs(*c, [&](Value v) { top_level.set(v, 1); });
  visit_values(trace.output, [&](Value v) { alive.set(v, 1); });
  Trace out = trace.derived();
  out.calls.reserve(trace.calls.size() * 2);
  std::vector<Value> last;
  auto note = [&](Value v) {
    if (alive[v]) return;
    alive.set(v, 1);
    last.push_back(v);
  };
  for (auto it = trace.calls.rbegin(); it != trace.calls.rend(); ++it) {
    last.clear();
    for (const Arg& a : (*it)->args) visit_values(a, note);
    for (Value v : (*it)->symbols) note(v);
    visit_body_symbols(**it, [&](Value v) {
      if (top_level[v]) note(v);
    });
    visit_outputs(**it, note);
    if (!last.empty()) out.calls.push_back(make_del(*trace.arena, last));
    out.calls.push_back(*it);
  }
  last.clear();
  for (Value v : trace.inputs) note(v);
  if (!last.empty()) out.calls.push_back(make_del(*trace.arena, last));
  std::reverse(out.calls.begin(), out.calls.end());
  return out;
}

}  // namespace thunder
