// Which values of a program become roots of kernels: they exist in memory, all others are computed where they are used.
//
//   t1 = prims.exp(x)            # read twice, but from one operand: computed again
//   t2 = prims.mul(x, y)         # read by two kernels, from two operands: a root
//   t3 = prims.sum(t2, [1])      # a reduction: a root
//   t4 = torch.matmul(t2, w)     # a barrier: what it reads exists
//
// Part of the partitioner.
#pragma once

#include <vector>

#include "core/trace.h"
#include "fuser/items.h"
#include "passes/visit.h"

namespace thunder::fuser {

/// By number of the item.  `maker` has the number of the item that makes a value, or -1; `demanded` are values that must
/// exist, because a barrier reads them or the program returns them.
std::vector<char> find_roots(const std::vector<Item>& items, const ValueMap<int>& maker, const ValueSet& demanded);

}  // namespace thunder::fuser
