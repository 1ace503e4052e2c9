// Late waits: what a user's program communicates is waited for where it is read first, so that what stands between
// hides it.  Starts stay where they are, in their order.
//
// Precondition: the calls are claimed and fused.  Where parameters are distributed, comm_schedule follows and places
// the plan's own waits.
//
//   p1 = all_reduce([t1]) ; t2 = wait(p1)          p1 = all_reduce([t1])
//   t3 = exp(x)                             -->    t3 = exp(x)
//   t4 = mul(t2, t3)                               t2 = wait(p1)
//                                                  t4 = mul(t2, t3)
#pragma once

#include "core/trace.h"

namespace thunder::distributed {

/// Whether the program waits for anything.
bool has_waits(const Trace& trace);
Trace late_waits(const Trace& trace);

}  // namespace thunder::distributed
