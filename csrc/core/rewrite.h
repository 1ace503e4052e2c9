// Small tools that passes share.
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/builder.h"
#include "core/trace.h"

namespace thunder {

/// Values standing for others; chains are followed, into containers too.  A value in its own replacement is itself; a
/// longer way back is an Error (Internal).
class Substitution {
 public:
  void replace(Value from, Arg to) { map_[from] = std::move(to); }
  bool empty() const { return map_.empty(); }
  Arg operator()(Value v) const;
  Arg operator()(const Arg& a) const;
  ArgList operator()(const ArgList& args) const;

 private:
  std::unordered_map<Value, Arg, ValueHash> map_;
};

/// The same call reading other values; the same node if nothing changes.  Bodies are rewritten, too.
const Call* substitute(Arena& arena, const Call* call, const Substitution& map);

/// For every value, the calls (by index in the trace) that read it; the trace's output counts as one more,
/// `calls.size()`.
class Uses {
 public:
  explicit Uses(const Trace& trace);
  const std::vector<size_t>& of(Value v) const;
  bool used(Value v) const { return !of(v).empty(); }
  /// Index of the last reader; -1 if none.
  int64_t last(Value v) const { return of(v).empty() ? -1 : static_cast<int64_t>(of(v).back()); }

 private:
  std::unordered_map<Value, std::vector<size_t>, ValueHash> uses_;
};

/// For every value made by a call, the index of that call.
std::unordered_map<Value, size_t, ValueHash> producers(const Trace& trace);

/// Symbols bound by a value: a number value whose type carries a dim that is a lone symbol.
std::optional<SymbolId> bound_symbol(Value v);

/// Calls that are made from here on read each symbol from the first value of the trace that binds it.
void bind_symbols(const Trace& trace);

}  // namespace thunder
