// The calls of a trace as the partitioner sees them: primitives of composites that can be fused, and what is none of ours.
#pragma once

#include <string>
#include <vector>

#include "fuser/graph.h"

namespace thunder::fuser {

struct Item {
  const Call* call;     ///< a primitive, or a barrier as it was claimed
  const Call* claimed;  ///< what runs it outside of kernels; null: to be claimed
  Kind kind;
  bool view = false;  ///< a Move without a copy
};

/// Calls that no fusion executor may take (may_be_fused) are barriers; `eager`: those that add_up_as_eager(), too.
std::vector<Item> items_of(const Trace& trace, bool eager);

}  // namespace thunder::fuser
