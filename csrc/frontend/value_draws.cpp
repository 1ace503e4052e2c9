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

void open_into(const Call* call, const ValueSet* of, std::vector<const Call*>& out) {
  if (!draws(*call) || call->body.empty() || (of && !makes_any(*call, *of))) return out.push_back(call);
  for (const Call* inner : call->body) open_into(inner, of, out);
}

// What a read may draw and hand to the program: tensors of known sizes that no gradient flows to.
bool can_be_handed_over(const Call& call) {
  bool fits = true;
  visit_outputs(call, [&](Value v) {
    fits = fits && v.type().is_tensor() && v.tensor().strided() && !v.requires_grad();
    if (!fits) return;
    for (const Dims* dims : {&v.tensor().shape, &v.tensor().strides})
      for (const Dim& d : *dims) fits = fits && d.is_constant();
  });
  return fits;
}

}  // namespace

std::vector<const Call*> open_draws(const std::vector<const Call*>& calls, const ValueSet* of) {
  std::vector<const Call*> out;
  for (const Call* c : calls) open_into(c, of, out);
  return out;
}

std::optional<Device> drawn_from(const Call& call) {
  if (!draws(call) || !can_be_handed_over(call)) return std::nullopt;
  std::optional<Device> device;
  visit_outputs(call, [&](Value v) { device = v.tensor().device; });
  return device;
}

std::vector<const Call*> draw_of_type(const std::shared_ptr<Arena>& arena, const Call* call) {
  if (!call->op->full_name.ends_with("_like")) return {call};
  const Value like = call->args[0].value();
  const TensorType& t = like.tensor();
  for (const Dims* dims : {&t.shape, &t.strides})
    for (const Dim& d : *dims)
      if (!d.is_constant()) return {call};
  Builder b(arena);
  Value empty = b("prims.empty_strided", t.shape, t.strides, kw("dtype", t.dtype), kw("device", t.device)).value();
  Substitution map;
  map.replace(like, empty);
  return {b.calls().back(), substitute(*arena, call, map)};
}

}  // namespace thunder::frontend
