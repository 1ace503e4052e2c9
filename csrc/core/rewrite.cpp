#include "core/rewrite.h"

#include "core/error.h"

namespace thunder {

Arg Substitution::operator()(Value v) const {
  if (map_.find(v) == map_.end()) return v;
  const std::function<Arg(Value, size_t)> follow = [&](Value from, size_t steps) -> Arg {
    for (auto it = map_.find(from); it != map_.end(); it = map_.find(from)) {
      const Arg& to = it->second;
      // A value in its own replacement is the value itself: x becomes (x, y).
      if (to.is_value() && to.value() == from) break;
      THUNDER_ASSERT(steps++ < map_.size(), "the replacement of ", v.name(), " leads back to ", from.name());
      if (!to.is_value()) return map_values(to, [&](Value u) { return u == from ? Arg(u) : follow(u, steps); });
      from = to.value();
    }
    return from;
  };
  return follow(v, 0);
}

Arg Substitution::operator()(const Arg& a) const {
  return map_values(a, [this](Value v) { return (*this)(v); });
}

ArgList Substitution::operator()(const ArgList& args) const {
  ArgList out;
  out.reserve(args.size());
  for (const Arg& a : args) out.push_back((*this)(a));
  return out;
}

// Bodies count: they read numbers that bind symbols, which need not be among the arguments of the call that they belong
// to.
static bool mentions_replaced(const Call& call, const Substitution& map) {
  bool found = false;
  visit_own_inputs(call, [&](Value v) { found |= !map(v).same(Arg(v)); });
  visit_outputs(call, [&](Value v) { found |= !map(v).same(Arg(v)); });
  for (const Call* inner : call.body) found = found || mentions_replaced(*inner, map);
  return found;
}

const Call* substitute(Arena& arena, const Call* call, const Substitution& map) {
  if (!mentions_replaced(*call, map)) return call;
  Call copy = *call;
  copy.args = map(call->args);
  copy.output = map(call->output);
  for (Value& v : copy.symbols)
    if (Arg other = map(v); other.is_value()) v = other.value();
  for (const Call*& inner : copy.body) inner = substitute(arena, inner, map);
  return arena.make_call(std::move(copy));
}

Uses::Uses(const Trace& trace) {
  auto add = [this](Value v, size_t i) {
    std::vector<size_t>& list = uses_[v];
    if (list.empty() || list.back() != i) list.push_back(i);
  };
  for (size_t i = 0; i < trace.calls.size(); ++i) visit_own_inputs(*trace.calls[i], [&](Value v) { add(v, i); });
  visit_values(trace.output, [&](Value v) { add(v, trace.calls.size()); });
}

const std::vector<size_t>& Uses::of(Value v) const {
  static const std::vector<size_t> none;
  auto it = uses_.find(v);
  return it == uses_.end() ? none : it->second;
}

std::unordered_map<Value, size_t, ValueHash> producers(const Trace& trace) {
  std::unordered_map<Value, size_t, ValueHash> out;
  for (size_t i = 0; i < trace.calls.size(); ++i) visit_outputs(*trace.calls[i], [&](Value v) { out[v] = i; });
  return out;
}

std::optional<SymbolId> bound_symbol(Value v) {
  if (!v.type().is_number() || !v.type().number().dim) return std::nullopt;
  const Dim& d = *v.type().number().dim;
  if (d.is_constant()) return std::nullopt;
  std::vector<SymbolId> symbols = d.symbols();
  if (symbols.size() != 1 || !d.same(Dim::symbol(symbols[0]))) return std::nullopt;
  return symbols[0];
}

void bind_symbols(const Trace& trace) {
  std::unordered_set<SymbolId> bound;
  auto bind = [&](Value v) {
    const std::optional<SymbolId> s = bound_symbol(v);
    if (s && bound.insert(*s).second) trace.arena->bind(*s, v);
  };
  for (Value v : trace.inputs) bind(v);
  for (const Call* c : trace.calls) visit_outputs(*c, bind);
}

}  // namespace thunder
