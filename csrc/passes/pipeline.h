// The pipeline: from the acquired trace to the programs that run.  Its passes are the rows of pass_table.h, which say why
// they stand in this order.
#pragma once

#include "passes/distributed/plan.h"
#include "passes/executor.h"
#include "passes/float8.h"
#include "passes/known_masks.h"
#include "passes/pass.h"

namespace thunder {

struct CompileOptions {
  ExecutorList executors;
  PassOptions passes;
  FusionOptions fusion;
  /// Rewrites of the acquired trace that the user asked for (transforms=), run first, in order.
  std::vector<std::pair<std::string, std::function<Trace(const Trace&)>>> transforms;
  Float8Options float8;  ///< layers of this program; none: no pass
  MaskReader masks;      ///< none: masks of attention stay
  /// Whether a call that is claimed is a user's code, of which only types are known; none: no call is.
  std::function<bool(const Call&)> is_opaque;
};

struct Compiled {
  Trace forward;         ///< what runs; without gradients its output is the user's flat outputs (a tuple)
  TraceHistory history;  ///< every trace from acquisition to `forward`
  bool has_backward = false;
  /// With gradients: forward returns ({'output', 'flat_args', 'flat_output'}, ((saved tensors), (saved numbers))) as
  /// the seeds show; the backward takes saved values and one cotangent per differentiable output, and returns one
  /// gradient (or None) per input of the forward.
  Trace backward;
  TraceHistory backward_history;
  /// With gradients: the user's program before the compiler's own passes.  Nothing where layers are in float8, or
  /// parameters distributed.
  std::optional<Trace> primal;
  std::vector<Value> flat_outputs;  ///< of the forward, in order (may hold inputs); an empty Value for a literal
  std::vector<Value> saved;         ///< of the forward, in the order of the backward's inputs: tensors, then numbers
  size_t saved_tensors = 0;
  /// Indices into flat_outputs: those that get a cotangent.  An output that is an input, or that repeats an earlier
  /// output, is none of them: the caller gets the very same tensor object.
  std::vector<size_t> differentiable_outputs;
  std::vector<char> optional_cotangents;  ///< see autodiff.h
  /// Per input of the forward: the differentiable outputs that depend on it (reach.h).
  std::vector<uint64_t> reaches;
};

/// `acquired.output` is a flat tuple of values (and literals).  Gradients are computed if an input that requires grad
/// reaches an output that requires grad and `with_grad`.
/// With `distribution` the program is that of one process of a group, and the forward takes what this process holds of
/// its parameters; those of the plan that the program does not read are its last inputs.
Compiled compile(const Trace& acquired, const CompileOptions& options, bool with_grad,
                 const distributed::Distribution& distribution = {});

}  // namespace thunder
