#include "passes/visit.h"

#include "core/error.h"

namespace thunder {

const Call* PrimitiveMakers::of(Value v) {
  const Call* call = makers_[v];
  while (call && !call->op->is_prim()) {
    for (const Call* inner : call->body) add(*inner);
    if (makers_[v] == call) return nullptr;
    call = makers_[v];
  }
  return call;
}

uint64_t tags_within(const Call& call, uint64_t mask) {
  uint64_t found = call.op->tags & mask;
  if (call.op->has(kOnce)) return found;
  for (const Call* inner : call.body) found |= tags_within(*inner, mask);
  return found;
}

bool is_pure_view(const Call& call) {
  if (call.body.empty()) return call.op->has(kView | kIdentity);
  for (const Call* inner : call.body)
    if (!is_pure_view(*inner)) return false;
  return true;
}

Value identity_source(const Call& call) {
  if (!call.body.empty()) {
    if (call.body.size() != 1 || !call.output.same(call.body[0]->output)) return {};
    return identity_source(*call.body[0]);
  }
  Value last;
  if (!call.op->has(kIdentity) || !call.output.is_tensor()) return last;
  for (const Arg& a : call.args)
    if (a.is_tensor()) last = a.value();
  return last;
}

namespace {

bool makes_inside(const Call& call, const ValueSet& needed, const ValueSet& own) {
  for (const Call* inner : call.body) {
    bool found = false;
    visit_outputs(*inner, [&](Value v) { found |= needed[v] && !own[v]; });
    if (found || makes_inside(*inner, needed, own)) return true;
  }
  return false;
}

void open_into(const Call* call, const ValueSet& needed, std::vector<const Call*>& out) {
  if (!call->body.empty()) {
    ValueSet own;
    visit_outputs(*call, [&](Value v) {
      if (needed[v]) own.set(v, 1);
    });
    if (makes_inside(*call, needed, own)) {
      for (const Call* inner : call->body) open_into(inner, needed, out);
      return;
    }
  }
  out.push_back(call);
}

}  // namespace

std::vector<const Call*> open_where_needed(const std::vector<const Call*>& calls, const ValueSet& needed) {
  std::vector<const Call*> out;
  out.reserve(calls.size());
  for (const Call* c : calls) open_into(c, needed, out);
  return out;
}

std::string user_line(const Call& call) {
  if (!call.location) return {};
  return cat(" (", call.location->file, ":", call.location->line, ")");
}

void Aliases::add(const Call& call) {
  if (!call.body.empty()) {
    for (const Call* inner : call.body) add(*inner);
    return;
  }
  if (!call.op->has(kView | kIdentity)) return;
  Value base = identity_source(call);
  for (const Arg& a : call.args) {
    if (base) break;
    visit_values(a, [&](Value v) {
      if (!base && v.type().is_tensor()) base = v;
    });
  }
  if (!base) return;
  visit_outputs(call, [&](Value v) {
    if (v.type().is_tensor()) roots_.set(v, root(base));
  });
}

// A closed call that returns views of something made inside it: what is inside cannot be named from outside, so the
// first such view stands for the storage.
void Aliases::adopt(const Call& call) {
  std::vector<std::pair<Value, Value>> adopted;
  visit_outputs(call, [&](Value v) {
    Value r = root(v);
    if (r == v) return;
    bool outside = false;
    visit_all_inputs(call, [&](Value i) { outside |= i == r || root(i) == r; });
    if (outside) return;
    for (const auto& [inner, owner] : adopted)
      if (inner == r) return roots_.set(v, owner);
    adopted.emplace_back(r, v);
    roots_.set(v, v);
  });
}

}  // namespace thunder
