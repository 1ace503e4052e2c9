#include "fuser/gaps.h"

#include <algorithm>

#include "passes/visit.h"

namespace thunder::fuser {
namespace {

constexpr int64_t kFewLines = 512;  // lines of memory that stay in a core's cache, for the rows beside

bool on_cpu(const Call& call) {
  return call.output.is_value() && call.output.value().type().is_tensor() &&
         call.output.value().tensor().device.type == DeviceType::cpu;
}

bool is_in_order(Value v) { return has_logical_order(v.tensor()); }

// A copy out of another order of the dimensions in memory than theirs, or into one.
bool transposes(const Call& call) {
  const std::string& name = call.op->full_name;
  if (name != "prims.clone" && (name != "prims.reshape" || is_view(call))) return false;
  return is_in_order(call.arguments().value("a")) != is_in_order(call.output.value());
}

// In the order of the dimensions: over columns, or rows of many elements.
bool walks_far(const Call& reduction) {
  const Reduction r = reduction_of(reduction);
  return r.order.empty() && (r.which == Reduced::Outer || usual(r.cols) > kFewLines);
}

bool is_far_walk(const Item& item) { return item.kind == Kind::Reduce && walks_far(*item.call); }

// What such reductions read, below what can be fused.
ValueSet read_by_far_walks(const std::vector<Item>& items) {
  ValueSet out;
  for (size_t i = items.size(); i-- > 0;) {
    const Item& item = items[i];
    if (item.kind == Kind::Barrier || !on_cpu(*item.call)) continue;
    if (item.kind == Kind::Reduce ? is_far_walk(item) : out[item.call->output.value()] != 0)
      visit_all_inputs(*item.call, [&](Value v) { out.set(v, 1); });
  }
  return out;
}

// Whether a reduction reads gaps: in its operand, or in what that is a copy of.
bool reads_gaps(const std::vector<const Call*>& parts, const Call& reduction) {
  const Value a = reduction.arguments().value("a");
  for (const Call* part : parts)
    if (part->op->full_name == "prims.clone" && part->output.value() == a)
      return has_gaps(reduction, part->arguments().value("a").tensor());
  return has_gaps(reduction);
}

}  // namespace

void leave_gaps_to_operators(std::vector<Item>& items) {
  for (Item& item : items)
    if (item.kind == Kind::Reduce && on_cpu(*item.call) && has_gaps(*item.call)) item.kind = Kind::Barrier;
  const ValueSet into_walks = read_by_far_walks(items);
  ValueSet of_walks;
  for (Item& item : items) {
    if (item.kind == Kind::Barrier || !on_cpu(*item.call)) continue;
    const Value out = item.call->output.value();
    bool made = is_far_walk(item);
    visit_all_inputs(*item.call, [&](Value v) { made = made || of_walks[v]; });
    if ((made || into_walks[out]) && transposes(*item.call)) item.kind = Kind::Barrier;
    else if (made) of_walks.set(out, 1);
  }
}

bool walks_over_gaps(const std::vector<const Call*>& parts) {
  const bool any_turns =
      std::any_of(parts.begin(), parts.end(), [](const Call* c) { return on_cpu(*c) && transposes(*c); });
  return std::any_of(parts.begin(), parts.end(), [&](const Call* c) {
    if (kind_of(*c) != Kind::Reduce || !on_cpu(*c)) return false;
    return (any_turns && walks_far(*c)) || (c->op->combine == Combine::Max && reads_gaps(parts, *c));
  });
}

}  // namespace thunder::fuser
