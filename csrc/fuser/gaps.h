// Rows and columns with gaps on the CPU: reductions that would read one element of each line of memory, left to PyTorch.
//
// Purpose       PyTorch sums up with gaps several times as fast, one piece of memory at a time, and transposes a
//               tensor in squares.  A kernel walks over one row after the other.
// Precondition  Calls as kind_of() knows them.
//
//   t1 = prims.sum(t0, [2, 3])                   # t0: f32[8, 64, 56, 56], channels last: no part of a kernel
//   t2 = prims.reshape(t0, [-1])                 # the copy is no part of a kernel, the sums are
//   t3 = prims.sum(prims.mul(t2, t2), [0])
//
// A row of few elements may be read through a copy (a layer norm of permuted dimensions): its lines stay in a core's cache
// for the rows beside.
#pragma once

#include <vector>

#include "fuser/items.h"

namespace thunder::fuser {

/// Makes barriers of such reductions, and of copies into the order in which others walk, or out of it.
void leave_gaps_to_operators(std::vector<Item>& items);
/// Whether the parts of a composite would do so: an operator for the whole is faster.
bool walks_over_gaps(const std::vector<const Call*>& parts);

}  // namespace thunder::fuser
