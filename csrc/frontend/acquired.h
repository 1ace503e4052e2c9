// What an acquisition gives.
#pragma once

#include <utility>
#include <vector>

#include "core/trace.h"
#include "frontend/inputs.h"
#include "frontend/value_reads.h"

namespace thunder::frontend {

struct Acquired {
  Trace computation;
  std::vector<InputSource> sources;  ///< one per input of the computation
  /// Runs after the computation, with autograd on: writes to inputs, and outputs that view inputs or each other.
  /// Inputs: those of the computation, then its outputs.  Its output is a flat tuple of the user's tensors.
  Trace epilogue;
  bool trivial_epilogue = false;  ///< the user's tensors are the computation's outputs, in order
  /// Tensors whose identity with an argument matters to the program: arguments that the program also reached through
  /// the environment, and tensors of the environment that it compared with an argument (`is`).
  std::vector<Ref> arguments_outside;
  std::vector<ValueRead> reads;  ///< what the program asked of its tensors' values, in order
  /// The inputs of the program that the reads begin with.
  std::vector<std::pair<Value, InputSource>> read_inputs;
  /// Of each tensor that keeps its gradient, which output of the computation it is; -1: nobody has it.
  std::vector<int64_t> retained;
};

}  // namespace thunder::frontend
