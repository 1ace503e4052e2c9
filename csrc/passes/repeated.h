// Which values of a program are rounded to their type, and which are made in two places.
//
// Purpose       A fusion executor may keep a value of 16 bits with the digits of float32.  It must not where a program
//               shows the difference: `y == y.amax()` finds no maximum where one side was rounded to bfloat16 and the
//               other was not, and `x.bfloat16().long()` is another integer.
// Precondition  For visible_values(): the program of the operators that eager runs; what lies within a composite,
//               eager's kernels do not round either.  For repeated_values(): the forward and the backward of the same
//               program, or its only trace, opened for fusion and not yet claimed.
// Method        Rounded is what eager has and is
//               - read by more than one call or output, counted where the primitives read, or made by both traces,
//                 which is to say computed again in the backward;
//               - the result of a cast to fewer digits: programs cast to round;
//               - the operand of what jumps: comparisons, casts to integers, floor;
//               - what another name of the same data (detach) asks for.
//
//   t1 = torch.exp(t0)          t1 is read twice
//   t2 = torch.amax(t1)
//   t3 = torch.eq(t1, t2)       t2 is compared
//   t4 = torch.mul(t5, 2)       t4 keeps its digits
//   t6 = torch.add(t4, t7)      t6 becomes an integer
//   t8 = torch.long(t6)
#pragma once

#include <vector>

#include "core/trace.h"
#include "passes/visit.h"

namespace thunder {

struct Visible {
  ValueSet values;   ///< what the calls of a trace give, their bodies aside
  ValueSet rounded;  ///< of these, results of casts to 16 bits and operands of what jumps
};

struct Repeated {
  ValueSet rounded;
  ValueSet made;  ///< by more than one of the traces
};

/// Whether eager's kernels for an operator, batch norms, add up in another order than a fused one would, which shows in
/// each element that they give: where eager's numerics are asked for, they run whole.
bool adds_up_as_eager(const Op& op);

Visible visible_values(const Trace& trace);
Repeated repeated_values(const std::vector<const Trace*>& traces, const Visible& visible);

}  // namespace thunder
