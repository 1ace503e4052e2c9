// Which programs can be recorded as a graph.
#pragma once

#include <string>
#include <vector>

#include "core/trace.h"
#include "passes/pipeline.h"

namespace thunder {

/// Why a claimed trace cannot be recorded on devices of that type, as the end of a sentence; empty if nothing speaks
/// against it.  `device`: the one that the trace works on; if set before, the only one allowed.
std::string why_not_recorded(const Trace& trace, DeviceType type, Device& device);

/// Whether none of these inputs, or a view of one, is saved for the backward.
bool saves_no(const Compiled& compiled, const std::vector<size_t>& inputs);

/// Whether the trace has anything to run.
bool computes(const Trace& trace);

/// The most bytes that what the trace makes has at once, as far as sizes are constants: about what a recording keeps.
int64_t most_live_bytes(const Trace& trace);

}  // namespace thunder
