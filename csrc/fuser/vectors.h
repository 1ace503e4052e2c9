// Vectors: what a program broadcasts over many rows, and would compute again in each of them.
//
//   t1 = prims.rsqrt(variance)                    # [64]: a kernel of its own, or the end of the one that sums columns
//   t2 = prims.broadcast_in_dim(t1, [100352, 64], [1])
//   t3 = prims.mul(x, t2)
//
// On a GPU, a value that is gathered, padded or transposed for such a broadcast (a bias of positions) becomes a root as
// well, so that neighbouring elements lie next to each other in memory.
//
// Part of the partitioner: such a value becomes a root.
#pragma once

#include <vector>

#include "core/trace.h"
#include "fuser/lower.h"
#include "passes/visit.h"

namespace thunder::fuser {

/// By number of the call.  `calls` are primitives in the order of the program, null where one is not fusible; `maker`
/// has the number of the call that makes a value, or -1; `inlined` says how many calls it takes to compute one's result.
std::vector<char> find_vectors(const std::vector<const Call*>& calls, const ValueMap<int>& maker,
                               const std::vector<size_t>& inlined);

/// A cast to more digits of what a pointwise call computes, views of it included.
bool widens(const Call& call, const Producer& producer);

}  // namespace thunder::fuser
