// Autodiff: a trace and the gradients of its inputs, as one joint trace; then two programs.
//
// Precondition: the trace is functional (no writes but effects that carry no gradient), its output is a flat tuple.
// The forward calls stay as they are (composites closed) unless the backward needs a value inside one: then that one is
// opened, down to the level that makes the value.
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
#include "passes/visit.h"

namespace thunder {

/// A gradient rule for a symbol, whoever runs it: used where the executor that would claim the call has none of its
/// own, before the record's, and before that of a record in whose body the symbol stands.  Like
/// Implementation::grad_transform.  A later rule for the same symbol replaces it; an empty one takes it away.
using GradientRule = std::function<Arg(Builder&, const Args&)>;
void register_gradient_rule(std::string symbol, GradientRule rule);
/// By full name, then by name; null if there is none.
const GradientRule* find_gradient_rule(const Op& op);

/// Replaces each call through which gradients flow and whose executor has a gradient rule of its own by what the rule
/// makes.  The executor that would claim the call decides: one further down the list is not asked.  A composite that
/// has neither such a rule nor a vjp is opened if a call in its body has one.
Trace executor_gradient_rules(const Trace& trace, const ExecutorList& executors);

struct JointTrace {
  /// Inputs: the primal inputs, then one cotangent per differentiable output.  Output: ((outputs), (gradients)), one
  /// gradient or None per primal input.
  Trace trace;
  std::vector<const Call*> forward;  ///< the primal calls as they came, closed
  size_t forward_calls = 0;          ///< how many of `trace.calls` they are, opened as far as the backward needs
  size_t primal_inputs = 0;
  /// Indices into the outputs.  An output that is an input or that repeats an earlier output is none: the caller gets
  /// the very same tensor, and autograd needs no help with it.
  std::vector<size_t> differentiable_outputs;
  std::vector<char> optional_cotangents;  ///< see below

  const ArgList& outputs() const { return trace.output.items().at(0).items(); }
  const ArgList& gradients() const { return trace.output.items().at(1).items(); }
};

/// Indices of the outputs that get a cotangent, see JointTrace.
std::vector<size_t> differentiable_outputs(const Trace& trace);

/// Per differentiable output: its cotangent may be missing, and the backward reads it by or_zeros() alone.  That is so
/// for a tensor beside a floating-point number, which a loss is: the logits of a model that returns both have none.
std::vector<char> optional_cotangents(const Trace& trace, const std::vector<size_t>& differentiable_outputs);

/// Walks the trace backwards with the rules, see above.  No numeric tape: everything is known before the program runs.
/// Error (Runtime) names an operator whose rule gives a gradient of another shape or dtype than its input has.
JointTrace autodiff(const Trace& trace);

struct SplitOptions {
  /// With a fusion executor computing again is nearly free: everything tagged cheap may be.  Without one it costs a
  /// kernel and memory traffic each time: only views and casts may be.
  bool aggressive_recompute = false;
  /// Futures of the forward that the backward makes once more, and waits for, rather than save what they give.
  ValueSet regathered = {};
  /// Values of the forward that the backward makes or takes even if nothing there reads them.
  std::vector<Value> needed = {};
  /// By what the wait for such a future gives: the bucket that it is gathered in.  And how many bytes each bucket has.
  ValueMap<int> bucket_of{-1};
  std::vector<int64_t> bucket_bytes = {};
};

struct ForwardBackward {
  /// Returns ({'output': ..., 'flat_args': [...], 'flat_output': (...)}, ((saved tensors), (saved numbers))).
  Trace forward;
  Trace backward;  ///< takes the saved values and the cotangents, returns a gradient or None per input of the forward
  std::vector<Value> saved;  ///< tensors first, then numbers and whatever else is no tensor
  size_t saved_tensors = 0;
};

/// Splits a joint trace in two.  What is saved is a minimum cut over byte counts, in which inputs and outputs of the
/// forward cost nothing, a view costs nothing beyond its storage, and calls with effects are never repeated.
///
///   forward:  t0 = linear(x, w) ; t1 = tanh(t0)                  backward: t2 = g * (1 - t1 * t1)
///             return ({'output': t1, ...}, ((t1, w, x), ()))               return (matmul(t2, w), matmul(t2^T, x))
ForwardBackward split(const JointTrace& joint, const SplitOptions& options = {});

}  // namespace thunder
