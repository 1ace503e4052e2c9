// Regions: several calls of a trace that become one, made by a fusion executor.
#pragma once

#include <memory>
#include <vector>

#include "core/trace.h"

namespace thunder {

/// What a set of calls reads from outside, and what of its results others read (or the trace returns), each in order of
/// appearance.
struct RegionValues {
  std::vector<Value> inputs, outputs;
};
RegionValues region_values(const Trace& trace, const std::vector<const Call*>& region);

/// The trace with the calls of `region` replaced by one call of `op` (owned by the arena) on the region's inputs, whose
/// body they become.  Other calls move only as far as they must; calls with effects stay in order.
/// Error (Value) if a call of the region needs one outside that needs one of the region.
Trace replace_region(const Trace& trace, const std::vector<const Call*>& region, std::unique_ptr<Op> op);

}  // namespace thunder
