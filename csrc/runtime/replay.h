// Gradients that can be differentiated themselves (create_graph=True): a compiled backward has no derivative, so the
// function is run once more by PyTorch's operators, with autograd on, and autograd differentiates that.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "passes/replayable.h"
#include "runtime/program.h"

namespace thunder {

/// The inputs of one call, for a replay: tensors by weak references, so that none lives longer for it.
class CallInputs {
 public:
  void add(const c10::IValue& input);
  /// The tensor or number; Error (Runtime) if the tensor is gone or, unless its values do not matter, has been written to
  /// since the call.
  c10::IValue get(size_t i, const std::string& name, bool as_it_was) const;

 private:
  struct Input {
    std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> tensor;
    uint32_t version = 0;
    c10::IValue number;
  };
  std::vector<Input> inputs_;
};

/// The function that an entry was compiled from, for PyTorch's autograd.  Its program is made at the first use.
class Replay {
 public:
  /// `primal`: the trace before the compiler's passes; `differentiable`: the outputs that get cotangents.
  Replay(const Trace& primal, const std::vector<size_t>& differentiable);

  /// Why the function cannot be run again to the same end; empty if it can.  `prepared`: makes its program, which may
  /// find more.
  std::string problem(bool prepared = false);

  /// Once problem(true) is empty: the gradients of the inputs that `wanted` marks, undefined where no used output depends on an input.  `cotangents`:
  /// one per differentiable output, undefined for unused ones.  The results' history leads to the inputs of the call
  /// and to the cotangents.  Releases the GIL while autograd runs.
  torch::autograd::variable_list gradients(const CallInputs& inputs, const torch::autograd::variable_list& cotangents,
                                           const std::vector<char>& wanted);

 private:
  void prepare();

  const Replayable function_;
  std::mutex mutex_;
  std::shared_ptr<Program> program_;
  std::string problem_;  // of the claimed calls
};

}  // namespace thunder
