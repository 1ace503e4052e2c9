// Rerunnable: the trace that PyTorch's autograd may run and differentiate in place of the compiled program.
//
// Purpose       A compiled backward has no derivative.  Where a gradient is to be differentiated itself, the function
//               runs again by PyTorch's operators with autograd on (runtime/rerun.h), from the arguments of the call.
// Precondition  The trace is as it was acquired: composites whole, no gradient taken, a flat tuple as output.
//
//   t1 = ltorch.mul(t0, 2)       # t0 requires grad, t1 does not: torch.no_grad()
//   t2 = ltorch.mul(t1, t0)
//   t3 = ltorch.sum(t0)
//   return (t2, t3)
//     -->                        # outputs = {0}
//   t1 = ltorch.mul(t0, 2)
//   t4 = ltorch.detach(t1)
//   t2 = ltorch.mul(t4, t0)
//   return (t2,)
//
// Types say which results have a gradient, and autograd does not read them: a result without one is detached.
// Refused are calls that do something else when they run again (random numbers, communication, writes), and calls whose
// gradient is not that of PyTorch's operators (rules of executors, torch.autograd.Function).
#pragma once

#include <string>
#include <vector>

#include "core/trace.h"

namespace thunder {

struct Rerunnable {
  Trace trace;                ///< returns the outputs that were asked for, in their order
  std::vector<char> matters;  ///< per input: an output depends on its values; the others are read for nothing
  std::string problem;        ///< why the trace must not be run again; empty if it may
};

/// `outputs`: indices into the trace's output.
Rerunnable rerunnable(const Trace& trace, const std::vector<size_t>& outputs);

}  // namespace thunder
