// A compiled function as autograd sees it: one node, which owns the backward program.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "passes/pipeline.h"
#include "runtime/distributed/placements.h"
#include "runtime/graphs.h"
#include "runtime/plain_epilogue.h"
#include "runtime/program.h"
#include "runtime/rerun.h"

namespace thunder {

/// What execute() runs.  Made by make_programs(); immutable once it is in use.
struct Programs {
  /// The node's name in the profiler and in error messages: "computation" runs as "ThunderBackward(computation)".
  std::string name = "computation";

  /// Leaves: the computation's outputs, then, with a backward, the saved tensors and the saved numbers.
  std::shared_ptr<Program> forward;
  size_t num_outputs = 0;
  size_t num_saved_tensors = 0;
  size_t num_saved_numbers = 0;

  /// Null without gradients.  Inputs: saved tensors, saved numbers, one cotangent per differentiable output; leaves:
  /// one gradient or None per input of the forward.
  std::shared_ptr<Program> backward;
  bool enables_grad = false;                   ///< records gradients where torch.is_grad_enabled() is false
  std::vector<size_t> differentiable_outputs;  ///< indices into the outputs, in the order of the cotangents
  /// Layout that the backward expects of each cotangent: shape and strides, both empty where it is not constant.
  struct Layout {
    std::vector<int64_t> sizes, strides;
    bool known = false;
    std::vector<int64_t> order;  ///< where sizes are symbols: the dimensions in memory, the outermost first; or nothing
    bool sparse = false;         ///< of whatever layout it comes
    /// Memory for the cotangent of such an output.
    at::Tensor memory_for(const at::Tensor& output) const;
  };
  std::vector<Layout> cotangents;
  std::vector<char> optional_cotangents;  ///< those that the backward may be given no tensor for
  std::vector<char> has_gradient;         ///< per input of the forward: the backward gives a gradient for it
  /// Of each result that keeps its gradient: its index in the outputs; -1: nobody has it (Acquired::retained).
  std::vector<int64_t> retained;
  std::vector<uint64_t> reaches;  ///< per input of the forward: the outputs that depend on it (passes/reach.h)

  /// Where gradients are to be differentiated themselves.  Null without a backward, and where Compiled::primal is.
  std::shared_ptr<Rerun> rerun;

  /// Per saved tensor: the input or the output that it is, or -1.
  std::vector<int64_t> saved_is_input, saved_is_output;
  std::vector<char> input_is_saved;  ///< per input of the forward

  /// Per input of the forward: the distributed parameter that it is, or null.  Empty if nothing is distributed.
  std::vector<std::shared_ptr<const distributed::Placement>> placements;
  const distributed::Placement* placement(size_t input) const {
    return placements.empty() ? nullptr : placements[input].get();
  }

  /// Runs after the forward, with autograd on: writes into inputs, derives views again, picks the user's outputs.
  /// Inputs: those of the forward, then the computation's outputs; its leaves are what execute() returns.  Null: the
  /// outputs are returned as they are.
  std::shared_ptr<Program> epilogue;
  std::vector<size_t> written_inputs;  ///< those that the epilogue writes into
  std::optional<PlainEpilogue> plain;  ///< what is done in its place, where it does no more

  /// Counts the gradients that a backward added to the leaves' .grad while it ran; null: it never does.
  std::shared_ptr<std::atomic<size_t>> accumulated;

  /// Set once a backward of these or other programs has run; null: nobody asks.
  std::shared_ptr<std::atomic<bool>> differentiated;

  /// Runs the programs as graphs where it can; null if it never is to.
  std::shared_ptr<EntryGraphs> graphs;

  bool needs_python() const { return forward->needs_python() || (epilogue && epilogue->needs_python()); }
  size_t num_inputs() const { return forward->num_inputs(); }
};

/// Builds the programs of a compilation.  `epilogue` (a claimed trace) may be null.
std::shared_ptr<Programs> make_programs(const Compiled& compiled, const Trace* epilogue = nullptr);
/// Says which inputs of the forward are distributed parameters, one per input.  The backward runs for those whose
/// gradients it keeps, too.
void place(Programs& programs, std::vector<std::shared_ptr<const distributed::Placement>> placements);
/// From now on the programs run as graphs where they can.  `by_address`, per input of the forward: it is the same
/// tensor at every call, and read where it lies.  Needs the GIL.
void use_graphs(Programs& programs, std::shared_ptr<GraphSettings> settings, const Compiled& compiled,
                std::vector<char> by_address);

/// Runs the forward below autograd on `inputs`, one per input of the forward trace.  If they have a backward and
/// grad mode is on, the differentiable outputs get one autograd node.  Then runs the epilogue.  `computing` is true
/// while the forward runs: nothing outside is written to before and in it, and no code of the user's is called.
std::vector<c10::IValue> execute(const std::shared_ptr<const Programs>& programs, std::vector<c10::IValue> inputs,
                                 bool* computing = nullptr);

}  // namespace thunder
