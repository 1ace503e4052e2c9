#include "fuser/items.h"

#include <algorithm>
#include <optional>

#include "fuser/gaps.h"
#include "fuser/host_rows.h"
#include "fuser/long_rows.h"
#include "fuser/open.h"
#include "passes/repeated.h"

namespace thunder::fuser {

namespace {

// Whether a value is computed by calls that can be fused, below views.
class Computed {
 public:
  void add(const Call& call) {
    runs_.add(call);
    bool is = kind_of(call) != Kind::Barrier && !is_view(call);
    if (!is && is_view(call)) visit_inputs(call, [&](Value v) { is = is || of(v); });
    if (is) visit_outputs(call, [&](Value v) { values_.set(v, 1); });
  }
  bool of(Value v) const { return values_[v] != 0; }
  const CpuRuns& runs() const { return runs_; }

 private:
  ValueSet values_;
  CpuRuns runs_;
};

// Long rows in two steps; false if some are left.  PyTorch's sum of what is there already takes no longer than ours.
bool divide_long_rows(std::vector<const Call*>& parts, const Computed& before, const std::shared_ptr<Arena>& arena) {
  const auto is_long = [](const Call* part) { return kind_of(*part) == Kind::Reduce && has_long_rows(*part); };
  if (std::none_of(parts.begin(), parts.end(), is_long)) return true;
  Computed computed = before;
  std::vector<const Call*> out;
  for (const Call* part : parts) {
    std::vector<const Call*> calls = {part};
    if (is_long(part)) {
      if (!computed.of(part->arguments().value("a"))) return false;
      calls = in_two_steps(*part, arena);
      if (calls.empty()) return false;
    }
    for (const Call* c : calls) {
      computed.add(*c);
      out.push_back(c);
    }
  }
  parts = std::move(out);
  return true;
}

// A composite with a second reduction reads the elements again behind the first one, in the same kernel.
void walk_in_rows(std::vector<const Call*>& parts, const Computed& before, const std::shared_ptr<Arena>& arena) {
  const auto reduces = [](const Call* part) { return kind_of(*part) == Kind::Reduce; };
  const auto at = std::find_if(parts.begin(), parts.end(), reduces);
  if (at == parts.end() || std::any_of(at + 1, parts.end(), reduces)) return;
  std::optional<Computed> with_parts;
  for (auto part = parts.begin(); part != at; ++part) {
    if (!with_parts) with_parts = before;
    with_parts->add(**part);
  }
  const Computed& computed = with_parts ? *with_parts : before;
  if (!computed.of((*at)->arguments().value("a"))) return;
  const std::vector<const Call*> calls = in_rows(**at, computed.runs(), arena);
  if (calls.empty()) return;
  parts.insert(parts.erase(at), calls.begin(), calls.end());
}

}  // namespace

std::vector<Item> items_of(const Trace& trace, const std::vector<std::string>& behind, bool eager) {
  std::vector<Item> out;
  Computed computed;
  for (const Call* call : trace.calls) {
    std::vector<const Call*> parts;
    const std::string& executor = call->op->executor;
    const bool ours = executor.empty() || std::find(behind.begin(), behind.end(), executor) != behind.end();
    const bool as_eager = eager && adds_up_as_eager(*call->op);
    if (!ours || as_eager || !open_into(*call, *trace.arena, parts) ||
        !divide_long_rows(parts, computed, trace.arena)) {
      out.push_back({call, call, Kind::Barrier});
      continue;
    }
    walk_in_rows(parts, computed, trace.arena);
    const bool only_views = std::all_of(parts.begin(), parts.end(), [](const Call* c) { return is_view(*c); });
    for (const Call* part : parts) {
      computed.add(*part);
      // Outside of kernels it runs as it was claimed, if it is the claimed call, or the last of the views that make
      // it up; and needs no more than they do (full_like() has a tensor for its sizes alone).
      const bool whole = (parts.size() == 1 || only_views) && part->output.is_value() && call->output.is_value() &&
                         part->output.value() == call->output.value() && !executor.empty() &&
                         reads_no_more(*call, parts);
      out.push_back({part, whole ? call : nullptr, kind_of(*part), kind_of(*part) == Kind::Move && is_view(*part)});
    }
  }
  leave_gaps_to_operators(out);
  return out;
}

}  // namespace thunder::fuser
