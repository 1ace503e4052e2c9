// Distribute: a program over whole parameters becomes one over what this process holds of them.
//
// Precondition: `d.inputs` are inputs of the trace, of the types that the plan says.  A joint trace's gradients of them
// are complete.  Parameters of the plan that the program does not read become inputs as well, behind the others: every
// program communicates all of the plan.
//
//   def joint(x, w, g):                         def joint(x, w_shard, g):
//     t0 = ltorch.linear(x, w, None)              p9 = prims.all_gather([w_shard], '0', 2)
//     t3 = matmul(g^T, x)                  -->    w = prims.wait(p9)
//     return ((t0,), (None, t3))                  t0 = ltorch.linear(x, w, None)
//                                                 t3 = matmul(g^T, x)
//                                                 p10 = prims.reduce_scatter([t3], 'avg', '0', 2)
//                                                 t11 = prims.wait(p10)
//                                                 return ((t0,), (None, t11))
//
// A replicated parameter stays as it is and its gradient is averaged by all_reduce.  A trainable parameter without a
// gradient contributes zeros.  A vector that tells which parameters the program uses is reduced last; the gradient of a
// parameter that no process has used is none, as in eager.  With Synchronization::Accumulate gradients are kept by
// prims.keep_gradient and no collective is made for them, unless the plan gathers parameters again.
//
// Each collective takes one parameter here; comm_buckets puts several into one.
#pragma once

#include "passes/autodiff.h"
#include "passes/distributed/plan.h"
#include "passes/visit.h"

namespace thunder::distributed {

/// Which futures carry which parameter: what later passes know the collectives of the plan by.
struct Collectives {
  ValueMap<int> gathers{-1};     ///< by the future; the parameter's index in the plan
  ValueMap<int> reductions{-1};  ///< the same
  int gather_of(const Call& start) const;
  int reduction_of(const Call& start) const;
};

/// A program without a backward.
Trace distribute(const Trace& trace, const Distribution& d, Collectives& made);
/// As above; gradients too.  The number of primal inputs grows by the parameters that the program does not read.
JointTrace distribute(const JointTrace& joint, const Distribution& d, Collectives& made);

/// The bucket that is gathered for the last of the readers among the first `calls` calls; none if nothing is gathered.
std::optional<size_t> bucket_read_last(const Trace& trace, size_t calls, const CommunicationPlan& plan,
                                       const Collectives& made);

}  // namespace thunder::distributed
