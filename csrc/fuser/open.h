// Calls as the fuser sees them: composites give way to their primitives where all of those can be fused.
#pragma once

#include <vector>

#include "core/trace.h"

namespace thunder::fuser {

/// Appends the primitives that a call is made of; false, and `out` is of no use, if one of them cannot be fused.
bool open_into(const Call& call, Arena& arena, std::vector<const Call*>& out);

/// Whether all tensors and numbers that a call reads are read by the parts that it is made of.
bool reads_no_more(const Call& call, const std::vector<const Call*>& parts);

/// The calls in whose place a call may stand: its primitives, if all are fusible; else itself.
std::vector<const Call*> opened(const Call& call, Arena& arena);

}  // namespace thunder::fuser
