// What passes share: walks through bodies, tables by value, effects, and opening composites.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/op.h"
#include "core/trace.h"

namespace thunder {

/// The numbers that bind symbols in the call or in its body: a pass that opens the call later needs them as well.
template <class F>
void visit_all_symbol_values(const Call& call, F&& fn) {
  for (Value v : call.symbols) fn(v);
  for (const Call* inner : call.body) visit_all_symbol_values(*inner, fn);
}

/// The operator that a call stands for, whoever runs it: "torch.linear", "prims.all_gather".
inline const Op& meant_by(const Call& call) { return call.op->implements ? *call.op->implements : *call.op; }

/// The call as it was before an executor claimed it.
inline const Call* unclaimed(const Call& call, Arena& arena) {
  if (!call.op->implements) return &call;
  Call out = call;
  out.op = call.op->implements;
  return arena.make_call(std::move(out));
}

/// Every value that the call reads, now or when it is opened: visit_own_inputs() and the symbols of the calls in the body,
/// also those that the body binds for itself.
template <class F>
void visit_all_inputs(const Call& call, F&& fn) {
  for (const Arg& a : call.args) visit_values(a, fn);
  visit_all_symbol_values(call, fn);
}

/// The outputs of the call and of those in its body.
template <class F>
void visit_all_outputs(const Call& call, F&& fn) {
  visit_outputs(call, fn);
  for (const Call* inner : call.body) visit_all_outputs(*inner, fn);
}

/// A table by value: ids are dense in a compilation, so a vector does.
template <class T>
class ValueMap {
 public:
  ValueMap() : missing_(T()) {}
  explicit ValueMap(T missing) : missing_(missing) {}
  const T& operator[](Value v) const { return v.id() < items_.size() ? items_[v.id()] : missing_; }
  void set(Value v, T item) {
    if (v.id() >= items_.size()) items_.resize(v.id() + 1 + v.id() / 2, missing_);
    items_[v.id()] = std::move(item);
  }

 private:
  T missing_;
  std::vector<T> items_;
};
using ValueSet = ValueMap<char>;

/// The primitives that make values; composites are opened down to them where they are asked for.
class PrimitiveMakers {
 public:
  void add(const Call& call) {
    visit_outputs(call, [&](Value v) { makers_.set(v, &call); });
  }
  /// Null for an input, and where a composite passes its argument on.
  const Call* of(Value v);

 private:
  ValueMap<const Call*> makers_{nullptr};
};

/// visit_all_inputs() without the symbols that the body binds for itself.
template <class F>
void visit_outer_inputs(const Call& call, F&& fn) {
  for (const Arg& a : call.args) visit_values(a, fn);
  ValueSet inside;
  for (const Call* inner : call.body) visit_all_outputs(*inner, [&](Value v) { inside.set(v, 1); });
  visit_all_symbol_values(call, [&](Value v) {
    if (!inside[v]) fn(v);
  });
}

/// Tags of the operator and of all operators in the body, as far as they are among `mask`: a composite that draws
/// random numbers inside is random, whatever its own record says.
uint64_t tags_within(const Call& call, uint64_t mask);

/// What a call writes beyond its outputs, or takes from outside: such calls are neither merged nor repeated nor moved.
inline uint64_t effects(const Call& call) { return tags_within(call, kEffects | kInput); }

/// Whether the call only makes views: it is one, or its body holds nothing else.
bool is_pure_view(const Call& call);

/// The value itself where the call does no work when it runs (kIdentity: detach): the last tensor among its arguments.
Value identity_source(const Call& call);

/// The calls with those composites opened that make a value in `needed` inside; each down to the level that makes it,
/// no further.  A composite's outputs do not count: the closed call makes them.
std::vector<const Call*> open_where_needed(const std::vector<const Call*>& calls, const ValueSet& needed);

/// " (file.py:12)", or nothing: the end of a message about a call.
std::string user_line(const Call& call);

/// What is read from a place of a trace on, walking from its end.  The lengths in the types of these values that only a
/// run can tell are needed as well: a later pass (autodiff) may make calls that mention one.
class LiveValues {
 public:
  void add(Value v);
  bool operator[](Value v) const { return values_[v] != 0; }
  /// Whether the call binds such a length, and none further on does, or it is a length of a live tensor.
  bool need_size_from(const Call& call);

 private:
  ValueSet values_;
  std::unordered_set<SymbolId> lengths_, bound_;
};

/// Which values share storage.
class Aliases {
 public:
  explicit Aliases(const std::vector<const Call*>& calls) {
    for (const Call* c : calls) {
      add(*c);
      if (!c->body.empty()) adopt(*c);
    }
  }
  /// The value that owns the storage; itself for anything but a view.
  Value root(Value v) const {
    Value r = roots_[v];
    return r ? r : v;
  }

 private:
  void add(const Call& call);
  void adopt(const Call& call);
  ValueMap<Value> roots_;
};

}  // namespace thunder
