#include "fuser/items.h"

#include <algorithm>

#include "fuser/open.h"
#include "passes/repeated.h"

namespace thunder::fuser {

std::vector<Item> items_of(const Trace& trace, const std::vector<std::string>& behind, bool eager) {
  std::vector<Item> out;
  for (const Call* call : trace.calls) {
    std::vector<const Call*> parts;
    const std::string& executor = call->op->executor;
    const bool ours = executor.empty() || std::find(behind.begin(), behind.end(), executor) != behind.end();
    const bool as_eager = eager && adds_up_as_eager(*call->op);
    if (!ours || as_eager || !open_into(*call, *trace.arena, parts)) {
      out.push_back({call, call, Kind::Barrier});
      continue;
    }
    const bool only_views = std::all_of(parts.begin(), parts.end(), [](const Call* c) { return is_view(*c); });
    for (const Call* part : parts) {
      // Outside of kernels it runs as it was claimed, if it is the claimed call, or the last of the views that make
      // it up; and needs no more than they do (full_like() has a tensor for its sizes alone).
      const bool whole = (parts.size() == 1 || only_views) && part->output.is_value() && call->output.is_value() &&
                         part->output.value() == call->output.value() && !executor.empty() &&
                         reads_no_more(*call, parts);
      out.push_back({part, whole ? call : nullptr, kind_of(*part), kind_of(*part) == Kind::Move && is_view(*part)});
    }
  }
  return out;
}

}  // namespace thunder::fuser
