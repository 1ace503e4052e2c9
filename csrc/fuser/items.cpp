#include "fuser/items.h"

#include <algorithm>
#include <unordered_set>

#include "fuser/gaps.h"
#include "fuser/host_rows.h"
#include "fuser/long_rows.h"
#include "fuser/open.h"
#include "passes/executor.h"
#include "passes/repeated.h"

namespace thunder::fuser {

namespace {

// Whether a value is computed by calls that can be fused, below views; and from which operands.
class Computed {
 public:
  explicit Computed(const Computed* before = nullptr)
      : before_(before), operands_(before ? &before->operands_ : nullptr) {}
  void add(const Call& call) {
    operands_.add(call);
    bool is = kind_of(call) != Kind::Barrier && !is_view(call);
    if (!is && is_view(call)) visit_all_inputs(call, [&](Value v) { is = is || of(v); });
    if (is) visit_outputs(call, [&](Value v) { values_.insert(v.id()); });
  }
  bool of(Value v) const { return values_.contains(v.id()) || (before_ && before_->of(v)); }
  const OperandStrides& operands() const { return operands_; }

 private:
  const Computed* before_;
  std::unordered_set<ValueId> values_;
  OperandStrides operands_;
};

bool reduces(const Call* part) { return kind_of(*part) == Kind::Reduce; }

// Reductions in two steps, where that takes less time; false if long rows are left.  PyTorch's sum of what is there
// already takes no longer than ours.
bool divide_reductions(std::vector<const Call*>& parts, const Computed& before, const std::shared_ptr<Arena>& arena) {
  const auto reductions = std::count_if(parts.begin(), parts.end(), reduces);
  if (reductions == 0) return true;
  Computed computed(&before);
  std::vector<const Call*> out;
  for (const Call* part : parts) {
    std::vector<const Call*> calls;
    if (reduces(part)) {
      const bool is_long = has_long_rows(*part), is_computed = computed.of(part->arguments().value("a"));
      if (is_long && is_computed) calls = in_two_steps(*part, arena);
      if (is_long && calls.empty()) return false;
      // A second reduction reads the elements again behind the first one, in the same kernel.
      if (!is_long && is_computed && reductions == 1) calls = in_rows(*part, computed.operands(), arena);
    }
    if (calls.empty()) calls = {part};
    for (const Call* c : calls) {
      computed.add(*c);
      out.push_back(c);
    }
  }
  parts = std::move(out);
  return true;
}

}  // namespace

std::vector<Item> items_of(const Trace& trace, bool eager) {
  std::vector<Item> out;
  Computed computed;
  for (const Call* call : trace.calls) {
    std::vector<const Call*> parts;
    const bool as_eager = eager && adds_up_as_eager(*call->op);
    if (!may_be_fused(*call) || as_eager || !open_into(*call, *trace.arena, parts) ||
        !divide_reductions(parts, computed, trace.arena)) {
      out.push_back({call, call, Kind::Barrier});
      continue;
    }
    const bool only_views = std::all_of(parts.begin(), parts.end(), [](const Call* c) { return is_view(*c); });
    for (const Call* part : parts) {
      computed.add(*part);
      // Outside of kernels it runs as it was claimed, if it is the claimed call, or the last of the views that make
      // it up; and needs no more than they do (full_like() has a tensor for its sizes alone).
      const bool whole = (parts.size() == 1 || only_views) && part->output.is_value() && call->output.is_value() &&
                         part->output.value() == call->output.value() && !call->op->executor.empty() &&
                         reads_no_more(*call, parts);
      out.push_back({part, whole ? call : nullptr, kind_of(*part), kind_of(*part) == Kind::Move && is_view(*part)});
    }
  }
  leave_gaps_to_operators(out);
  return out;
}

}  // namespace thunder::fuser
