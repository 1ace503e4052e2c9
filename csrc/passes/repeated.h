// Which values several places of a program may compare with each other.
//
// Purpose       A value that is read in two places, or computed in two, must be the same number there: `y == y.amax()`
//               finds no maximum where one side was rounded to bfloat16 and the other was not.  A fusion executor asks
//               which values those are; all others it may keep with more digits than their type has.
// Precondition  The forward and the backward of one program, or its only trace, before they are claimed; and the values
//               that eager has, too.  What lies within a composite, eager's kernels do not round either.
// Method        Reads are counted where the primitives read, so a composite counts as its body; an output of a trace is
//               read once more.  A value that two traces compute is one that the backward computes again.
//
//   t1 = torch.exp(t0)          t1 is read twice,
//   t2 = torch.amax(t1)         t2 once
//   t3 = torch.eq(t1, t2)
#pragma once

#include <vector>

#include "core/trace.h"
#include "passes/visit.h"

namespace thunder {

struct Repeated {
  ValueSet read;  ///< by more than one call or output
  ValueSet made;  ///< by more than one of the traces
};

Repeated repeated_values(const std::vector<const Trace*>& traces, const ValueSet& visible);

/// What the calls of a trace give, their bodies aside.
ValueSet visible_values(const Trace& trace);

}  // namespace thunder
