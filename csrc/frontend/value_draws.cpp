#include "frontend/value_draws.h"

#include <algorithm>

#include "core/builder.h"
#include "core/rewrite.h"

namespace thunder::frontend {
namespace {

bool draws(const Call& call) { return tags_within(call, kRandom) != 0; }

bool makes_any(const Call& call, const ValueSet& of) {
  bool any = false;
  visit_outputs(call, [&](Value v) { any = any || of[v]; });
  return any || std::any_of(call.body.begin(), call.body.end(), [&](const Call* c) { return makes_any(*c, of); });
}

bool has_known_layout(const TensorType& t) { return t.strided() && all_constant(t.shape) && all_constant(t.strides); }

bool can_be_handed_over(const Call& call) {
  bool fits = true;
  visit_outputs(call, [&](Value v) { fits = fits && frontend::can_be_handed_over(v); });
  return fits;
}

void open_into(const Call* call, const ValueSet* of, std::vector<const Call*>& out) {
  // What PyTorch has an operator for draws in that operator's order.
  const bool whole = !call->op->aten.empty() && can_be_handed_over(*call);
  if (!draws(*call) || call->body.empty() || whole || (of && !makes_any(*call, *of))) return out.push_back(call);
  for (const Call* inner : call->body) open_into(inner, of, out);
}

// The tensors that a draw takes for their types alone: its body, if it has one, does not read them.
std::vector<Value> taken_for_their_type(const Call& call) {
  std::vector<Value> out;
  if (call.body.empty() && !call.op->full_name.ends_with("_like")) return out;
  ValueSet read;
  for (const Call* c : call.body) visit_all_inputs(*c, [&](Value v) { read.set(v, 1); });
  visit_all_inputs(call, [&](Value v) {
    if (v.type().is_tensor() && !read[v]) out.push_back(v);
  });
  return out;
}

}  // namespace

bool can_be_handed_over(Value v) { return v.type().is_tensor() && !v.requires_grad() && has_known_layout(v.tensor()); }

std::vector<const Call*> open_draws(const std::vector<const Call*>& calls, const ValueSet* of) {
  std::vector<const Call*> out;
  for (const Call* c : calls) open_into(c, of, out);
  return out;
}

std::optional<Device> drawn_from(const Call& call) {
  // A call that is made beside the program has no place in it.
  if (!draws(call) || (call.op->executor.empty() && !can_be_handed_over(call))) return std::nullopt;
  std::optional<Device> device;
  visit_outputs(call, [&](Value v) { device = v.tensor().device; });
  return device;
}

std::vector<const Call*> draw_of_type(const std::shared_ptr<Arena>& arena, const Call* call) {
  Builder b(arena);
  Substitution map;
  for (Value like : taken_for_their_type(*call)) {
    const TensorType& t = like.tensor();
    if (!has_known_layout(t)) continue;
    map.replace(like, b("prims.empty_strided", t.shape, t.strides, kw("dtype", t.dtype), kw("device", t.device)));
  }
  std::vector<const Call*> out = b.calls();
  out.push_back(substitute(*arena, call, map));
  return out;
}

}  // namespace thunder::frontend
