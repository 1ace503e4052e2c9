#include <functional>
#include <unordered_map>

#include "core/rewrite.h"
#include "passes/equal_calls.h"
#include "passes/passes.h"
#include "passes/visit.h"

namespace thunder {
namespace {

size_t mix(size_t hash, size_t item) { return (hash ^ item) * 0x9E3779B97F4A7C15ull + (hash >> 29); }

// Equal arguments (Arg::same) have equal hashes.  Symbolic dims hash alike: comparing them is cheaper than a canonical
// hash.
size_t hash_of(const Arg& a, size_t h) {
  h = mix(h, static_cast<size_t>(a.kind()));
  switch (a.kind()) {
    case Arg::Kind::Bool: return mix(h, a.boolean());
    case Arg::Kind::Int: return a.dim().is_constant() ? mix(h, static_cast<size_t>(a.dim().constant())) : h;
    case Arg::Kind::Str: return mix(h, std::hash<std::string>()(a.str()));
    case Arg::Kind::DType: return mix(h, static_cast<size_t>(a.dtype()));
    case Arg::Kind::Value: return mix(h, a.value().id());
    case Arg::Kind::List:
    case Arg::Kind::Tuple:
      for (const Arg& item : a.items()) h = hash_of(item, h);
      return mix(h, a.items().size());
    case Arg::Kind::Dict:
      for (const auto& [key, item] : a.entries()) h = hash_of(item, hash_of(key, h));
      return h;
    case Arg::Kind::Slice: return hash_of(a.slice().step, hash_of(a.slice().stop, hash_of(a.slice().start, h)));
    // NaNs of any bits are the same to Arg::same, and so must hash alike.
    case Arg::Kind::Float: return a.real() != a.real() ? h : mix(h, std::hash<double>()(a.real()));
    default: return h;
  }
}

// Equal calls give equal types but for requires_grad, which differs where one was made without recording gradients.
bool same_requires_grad(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].requires_grad() != b[i].requires_grad()) return false;
  return true;
}

class Merger {
 public:
  Merger(const Trace& trace, size_t keep, const ValueSet* from)
      : trace_(trace), keep_(keep), from_(from), aliases_(trace.calls) {
    visit_values(trace.output, [&](Value v) {
      returned_.set(v, 1);
      returned_storage_.set(aliases_.root(v), 1);
    });
  }

  Trace run() {
    Trace out = trace_.derived();
    out.calls.reserve(trace_.calls.size());
    for (size_t i = 0; i < trace_.calls.size(); ++i) {
      const Call* call = current(trace_.calls[i]);
      const bool keep = i < keep_ || (from_ && call == trace_.calls[i] && !starts(*call));
      uint64_t effect = effects(*call);
      // What was read from memory before a write need not be what is read after it.
      if (effect & kWrite) seen_.clear();
      if (effect || !merge(*call, keep)) out.calls.push_back(call);
    }
    out.output = map_(trace_.output);
    return out;
  }

 private:
  const Call* current(const Call* call) const {
    bool changes = false;
    if (!map_.empty()) visit_all_inputs(*call, [&](Value v) { changes |= merged_[v] != 0; });
    return changes ? substitute(*trace_.arena, call, map_) : call;
  }

  bool starts(const Call& call) const {
    bool found = false;
    visit_outputs(call, [&](Value v) { found |= (*from_)[v] != 0; });
    return found;
  }

  // Makes an earlier equal call stand for this one; else remembers it for later ones.
  bool merge(const Call& call, bool keep) {
    std::vector<Value> outputs = outputs_of(call);
    if (outputs.empty() || escapes(outputs)) return false;
    const size_t hash = hash_of_call(*call.op, call.args);
    auto [first, last] = seen_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      std::vector<Value> earlier = outputs_of(*it->second);
      if (!is_equal_call(*it->second->op, it->second->args, *call.op, call.args) ||
          (keep_ == 0 && !same_requires_grad(earlier, outputs)))
        continue;
      if (keep) return false;
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == earlier[i]) continue;  // an argument that both calls return
        map_.replace(outputs[i], earlier[i]);
        merged_.set(outputs[i], 1);
      }
      return true;
    }
    seen_.emplace(hash, &call);
    return false;
  }

  // The caller may write to what it receives, so its storage is nobody else's; a view is only kept apart as an object.
  bool escapes(const std::vector<Value>& outputs) const {
    for (Value v : outputs)
      if (aliases_.root(v) == v ? returned_storage_[v] : returned_[v]) return true;
    return false;
  }

  const Trace& trace_;
  size_t keep_;
  const ValueSet* from_;
  Aliases aliases_;
  ValueSet returned_, returned_storage_, merged_;
  Substitution map_;
  std::unordered_multimap<size_t, const Call*> seen_;
};

}  // namespace

size_t hash_of_call(const Op& op, const ArgList& args) {
  size_t hash = reinterpret_cast<size_t>(&op);
  for (const Arg& a : args) hash = hash_of(a, hash);
  return hash;
}

bool is_equal_call(const Op& op, const ArgList& args, const Op& other, const ArgList& others) {
  if (&op != &other) return false;
  for (size_t i = 0; i < args.size(); ++i)
    if (!args[i].same(others[i])) return false;
  return true;
}

Trace cse(const Trace& trace, size_t keep, const ValueSet* from) { return Merger(trace, keep, from).run(); }

}  // namespace thunder
