// The partitioner: which calls of a program become which kernels.
//
// Purpose       Save trips to memory.  A value is written only if an operator that is not ours, or another kernel,
//               reads it.
// Precondition  A claimed trace.  Calls that may_be_fused() are opened where all of their primitives are fusible.
// Method        1. Every value that must exist (read by a barrier, returned) and every reduction becomes a root; so
//                  does one that several roots would compute again from more than one large operand, and one whose
//                  arithmetic, wherever it is read, takes longer than to store it (work.h).  The rest is computed
//                  where it is used.
//               2. In program order, a root joins the kernel of a root that it reads, else one that reads the same
//                  operand, if nothing outside lies between the two and the loop IR can express both (lower()).
//               3. Kernels that would do no more than one operator does stay with the operators, unless they compute
//                  what another kernel computes as well: an operator's exp() has other bits than a kernel's.
//
//   t2 = torch.mul(t0, t1)                  [t3] = fusion0(t0, t1)
//   t3 = torch.exp(t2)               ->       # t2 = prims.mul(t0, t1)
//   t4 = torch.matmul(t3, t1)                 # t3 = prims.exp(t2)
//                                           t4 = torch.matmul(t3, t1)
//
// Views at the border stay views: a kernel reads what lies below a view, and what is read through a view outside is
// stored once.
#pragma once

#include <functional>
#include <vector>

#include "core/trace.h"
#include "fuser/lowered_kernels.h"
#include "passes/repeated.h"

namespace thunder::fuser {

/// One kernel of the new program.
struct Fusion {
  std::vector<Root> roots;
  std::vector<const Call*> calls;  ///< in program order
  std::vector<Value> inputs, outputs;
  ArgList numbers = {};  ///< arguments of the call behind the inputs, which make_op() may ask for
  Producer producer;
  Materialized materialized;
  const ValueSet* exact = nullptr;    ///< see LowerOptions; as long as make_op() runs
  LoweredKernels* lowered = nullptr;  ///< the same
};

struct PartitionOptions {
  /// Makes the operator of a kernel; null leaves its calls as they are.
  std::function<const Op*(Fusion&)> make_op;
  const Repeated* repeated = nullptr;  ///< of the whole program that the trace is a part of
  bool eager = false;                  ///< see adds_up_as_eager()
  bool single = false;                 ///< kernels that do one operator's work, too
};

/// A trace that writes to memory (an epilogue) is left as it is.
Trace partition(const Trace& trace, const PartitionOptions& options);

}  // namespace thunder::fuser
