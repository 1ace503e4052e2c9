#include "core/trace.h"

#include <algorithm>

#include "core/error.h"
#include "core/rewrite.h"

namespace thunder {

Value Arena::make_value(Type type, std::string name) {
  return make_value_with_id(next_id_, std::move(type), std::move(name));
}

Value Arena::make_value_with_id(ValueId id, Type type, std::string name) {
  next_id_ = std::max(next_id_, id + 1);
  values_.push_back(ValueNode{id, std::move(type), std::move(name)});
  Value v(&values_.back());
  if (std::optional<SymbolId> s = bound_symbol(v)) symbols_[*s] = v;
  return v;
}

const Call* Arena::make_call(Call call) {
  if (!symbols_.empty()) {
    // A call made from another keeps the other's values: those bound later may not be there yet where it stands.
    std::vector<Value> given = std::move(call.symbols);
    call.symbols.clear();
    for (const Arg& a : call.args)
      for_each_symbol(a, [&](SymbolId id) {
        auto it = std::find_if(given.begin(), given.end(), [&](Value g) { return bound_symbol(g) == id; });
        Value v = it != given.end() ? *it : symbol_value(id);
        if (v && std::find(call.symbols.begin(), call.symbols.end(), v) == call.symbols.end())
          call.symbols.push_back(v);
      });
  }
  calls_.push_back(std::move(call));
  return &calls_.back();
}

const SourceLocation* Arena::make_location(SourceLocation location) {
  if (!locations_.empty()) {
    const SourceLocation& last = locations_.back();
    if (last.line == location.line && last.file == location.file && last.function == location.function) return &last;
  }
  locations_.push_back(std::move(location));
  return &locations_.back();
}

const Op& Arena::own(std::unique_ptr<Op> op) {
  ops_.push_back(std::move(op));
  return *ops_.back();
}

Value Arena::symbol_value(SymbolId id) const {
  auto it = symbols_.find(id);
  return it == symbols_.end() ? Value() : it->second;
}

int Arena::unique(const std::string& prefix) {
  for (auto& [known, next] : counters_)
    if (known == prefix) return next++;
  counters_.emplace_back(prefix, 1);
  return 0;
}

Trace Trace::derived() const {
  Trace t;
  t.name = name;
  t.arena = arena;
  t.inputs = inputs;
  t.output = output;
  t.signature = signature;
  return t;
}

std::vector<Value> inputs_of(const Call& call) {
  std::vector<Value> out;
  visit_own_inputs(call, [&](Value v) { out.push_back(v); });
  return out;
}

std::vector<Value> outputs_of(const Call& call) { return values_in(call.output); }

}  // namespace thunder
