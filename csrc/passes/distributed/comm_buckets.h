// Buckets: parameters that are communicated together share one collective.
//
// Precondition: the trace is a forward or a backward behind split, not yet claimed, so that the casts that a bucket
// needs still fuse.  Each collective of the plan takes one parameter.
// The buckets' order is the plan's, or becomes it: gathers in the order in which the program first needs one of theirs,
// reductions in the order in which their last gradient is known.  The first gathers and the last reductions, which no
// computation hides, are of a few megabytes each.
//
//   p1 = prims.all_gather([w1], '0', 2)        p3 = prims.all_gather([w1, w2], '0', 2)
//   t1 = prims.wait(p1)                  -->   (t1, t2) = prims.wait(p3)
//   t5 = ltorch.linear(x, t1, None)            t5 = ltorch.linear(x, t1, None)
//   p2 = prims.all_gather([w2], '0', 2)        t6 = ltorch.linear(t5, t2, None)
//   t2 = prims.wait(p2)
//   t6 = ltorch.linear(t5, t2, None)
#pragma once

#include "passes/distributed/distribute.h"

namespace thunder::distributed {

/// Where in the plan's order a program's collectives stand, by their futures.
struct Positions {
  ValueMap<int> gathers{-1}, reductions{-1};
};

/// `gathers` and `reductions`: the orders that the trace follows, set if they are not.
/// Error (Runtime) if the trace does not gather what an order that is set says.
Trace comm_buckets(const Trace& trace, const CommunicationPlan& plan, const Collectives& singles,
                   std::optional<std::vector<Bucket>>& gathers, std::optional<std::vector<Bucket>>& reductions,
                   Positions& made);

}  // namespace thunder::distributed
