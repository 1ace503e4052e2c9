// Autodiff: a trace and the gradients of its inputs, as one joint trace; then two programs.
//
// Precondition: the trace is functional (no writes but effects that carry no gradient), its output is a flat tuple.
// The forward calls stay as they are (composites closed) unless the backward needs a value inside one: then that one is opened.
//
//   def computation(x, w):                 def joint(x, w, g):
//     t0 = ltorch.linear(x, w, None)         t0 = ltorch.linear(x, w, None)
//     t1 = ltorch.tanh(t0)           -->     t1 = ltorch.tanh(t0)
//     return (t1,)                           t2 = g * (1 - t1 * t1)
//                                            t3 = matmul(t2, w) ; t4 = matmul(t2^T, x)
//                                            return ((t1,), (t3, t4))
//
// Rules: an executor's grad_transform first, then the record's vjp, then the rules of the calls in its body.
// A call with no rule and no body through which a gradient should flow is an error that names the operator.
#pragma once

#include "passes/executor.h"

namespace thunder {

struct JointTrace {
  Trace trace;                    ///< inputs: the primal inputs, then one cotangent per differentiable output
  size_t primal_inputs = 0;
  std::vector<Value> outputs;     ///< primal flat outputs
  std::vector<size_t> differentiable_outputs;
  std::vector<Arg> gradients;     ///< per primal input: a value, or None
};

/// Walks the trace backwards with the rules, see above.  No numeric tape: everything is known before the program runs.
JointTrace autodiff(const Trace& trace, const ExecutorList& executors);

struct ForwardBackward {
  Trace forward, backward;
  std::vector<Value> saved;  ///< tensors first, then numbers
  size_t saved_tensors = 0;
};

/// Splits a joint trace in two.  What is saved is a minimum cut over byte counts, in which cheap producers (Tag::kCheap: casts,
/// views, pointwise, norms) may be computed again in the backward, inputs cost nothing, and calls with effects are never repeated.
ForwardBackward split(const JointTrace& joint);

}  // namespace thunder
