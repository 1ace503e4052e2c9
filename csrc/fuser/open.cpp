#include "fuser/open.h"

#include <algorithm>

#include "fuser/gaps.h"
#include "fuser/graph.h"
#include "fuser/long_rows.h"
#include "ops/formula.h"
#include "ops/shape_common.h"

namespace thunder::fuser {
namespace {

// What stands for a claimed primitive in the eyes of kind_of(): the call of the primitive itself.
const Call* as_primitive(const Call& call, Arena& arena) {
  return meant_by(call).is_prim() ? unclaimed(call, arena) : &call;
}

// Parts without elements add nothing to a cat, and have no place in a kernel.
const Call* without_empty_parts(const Call& call, Arena& arena) {
  if (call.op->full_name != "prims.cat") return &call;
  auto is_empty = [](const Arg& a) { return ops::known_empty(a.value().shape()); };
  const int at = call.op->schema.index_of("tensors");
  const ArgList& parts = call.args[static_cast<size_t>(at)].items();
  if (std::none_of(parts.begin(), parts.end(), is_empty) || std::all_of(parts.begin(), parts.end(), is_empty))
    return &call;
  ArgList left;
  std::copy_if(parts.begin(), parts.end(), std::back_inserter(left), [&](const Arg& a) { return !is_empty(a); });
  // An empty one has a say in how the result lies.
  const auto lies_last = [](const Arg& a) { return ops::suggests_channels_last(a.value().tensor()); };
  if (std::all_of(left.begin(), left.end(), lies_last) && !lies_last(call.output)) return &call;
  Call shorter = call;
  shorter.args[static_cast<size_t>(at)] = Arg::list(std::move(left));
  return arena.make_call(std::move(shorter));
}

}  // namespace

bool open_into(const Call& call, Arena& arena, std::vector<const Call*>& out) {
  const Call* plain = without_empty_parts(*as_primitive(call, arena), arena);
  if (kind_of(*plain) != Kind::Barrier) {
    out.push_back(plain);
    return true;
  }
  if (call.body.empty() || call.op->has(kEffects | kWhole)) return false;
  const size_t first = out.size();
  for (const Call* inner : call.body)
    if (!open_into(*inner, arena, out)) return false;
  if (walks_over_gaps({out.begin() + static_cast<std::ptrdiff_t>(first), out.end()})) return false;
  // Of long rows one walk of PyTorch's takes less time than two of ours (a variance).
  if (!plain->op->has(kReduction) || !plain->op->is_prim()) return true;
  return std::none_of(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
                      [](const Call* part) { return kind_of(*part) == Kind::Reduce && has_long_rows(*part); });
}

bool reads_no_more(const Call& call, const std::vector<const Call*>& parts) {
  ValueSet read;
  for (const Call* part : parts) visit_all_inputs(*part, [&](Value v) { read.set(v, 1); });
  bool all = true;
  for (const Arg& a : call.args) visit_values(a, [&](Value v) { all = all && read[v]; });
  return all;
}

std::vector<const Call*> opened(const Call& call, Arena& arena) {
  std::vector<const Call*> out;
  // There is nothing to choose among views: they cost nothing.
  if (!open_into(call, arena, out) || std::all_of(out.begin(), out.end(), [](const Call* c) { return is_view(*c); }))
    return {&call};
  return out;
}

}  // namespace thunder::fuser
