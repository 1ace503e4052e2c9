// Schedule: where in a program collectives start, and where the program waits for them.
//
// Precondition: the calls are claimed, and no pass but delete_last_used follows.
// Gathers start in the plan's order.  The wait for one stands right before the first reader; the next gather starts
// behind it, and behind each call one more, so that what is computed from the one hides the others, as long as what was
// started and not yet waited for stays within `bytes_in_flight` (one bucket may always be).
// Reductions start in the plan's order as soon as their gradients are known, and are waited for at the end, or once
// more than `bytes_in_flight` of gradients are kept by what was started.  So does what is made for them alone: casts, and
// sums with the gradients that no_sync() has kept.
// Processes with different programs gather for different reasons before the same reduction.  A program that waited for
// the reduction before it starts a gather that another program's reduction needs would wait forever; see
// CommunicationOrder::regathers_before.
//
//   p1 = all_gather([w1]) ; t1 = wait(p1)          p1 = all_gather([w1])
//   t5 = linear(x, t1)                             t1 = wait(p1)
//   p2 = all_gather([w2]) ; t2 = wait(p2)    -->   p2 = all_gather([w2])
//   t6 = linear(t5, t2)                            t5 = linear(x, t1)
//                                                  t2 = wait(p2)
//                                                  t6 = linear(t5, t2)
#pragma once

#include "passes/distributed/comm_buckets.h"

namespace thunder::distributed {

/// `regathers_before` is followed, or set if it is not and the trace reduces.  `too_late` gets the parameters that the
/// program needs sooner than that allows: the trace is no result then, and the program is to save what it gathered.
Trace comm_schedule(const Trace& trace, const CommunicationPlan& plan, const Positions& positions,
                    std::optional<std::vector<size_t>>& regathers_before, std::set<size_t>& too_late);

}  // namespace thunder::distributed
