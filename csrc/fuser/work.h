// What it costs to compute a value wherever it is read, beside what it costs to store it once and to load it.
//
//   t1 = prims.log(distance)                       # [512, 512]
//   t2 = prims.broadcast_in_dim(t1, [16, 12, 512, 512], [2, 3])
//   t3 = prims.add(scores, t2)                     # would take 192 logarithms for each element of t1
//
// Part of the partitioner: such a value becomes a root.
#pragma once

#include <cstdint>

#include "core/trace.h"

namespace thunder::fuser {

/// About how many instructions one element of the call's result takes, its operands being there.
double instructions(const Call& call);

/// Whether to store the `elements` of a value of which one takes so many instructions, and which are `read` so many times
/// in all. Loads and stores count as the instructions for which a processor has time meanwhile.
bool worth_storing(double elements, int64_t bytes_each, double instructions, double read);

}  // namespace thunder::fuser
