// Reduction: the smallest part of a trace, found by delta debugging, for which a check still holds.
//
// Purpose       A model that is compiled wrongly is a trace of thousands of calls, of which two or three show the defect.
//               A report, and whoever mends it, needs those.
// Precondition  The check holds for the whole trace.  The trace may come from any stage of the pipeline.
//
//   def computation(x, w):                      # check: the trace computes a cumulative sum
//     t0 = ltorch.linear(x, w)
//     t1 = ltorch.cumsum(t0, -1)
//     t2 = ltorch.softmax(t1, -1)
//     return (t2, t0)
//     -->
//   def computation(t0):
//     t1 = ltorch.cumsum(t0, -1)
//     return (t1,)
//
// Two steps are repeated until neither changes the trace: outputs are left out; calls are left out, where their results
// become inputs and their arguments are returned.  Each step tries halves first, then quarters, down to one, so a single
// culprit among n calls takes some 3 log2(n) checks.
//
// Calls that bind symbols stay while a size depends on them.  Futures and opaque values do not become inputs.  Every
// candidate passes the verifier before the check sees it.
#pragma once

#include <functional>

#include "core/trace.h"

namespace thunder {

/// Error (Value) if `check` does not hold for `trace`.  The result takes its inputs one by one, and returns a flat tuple
/// of tensors and numbers.
Trace reduce(const Trace& trace, const std::function<bool(const Trace&)>& check);

}  // namespace thunder
