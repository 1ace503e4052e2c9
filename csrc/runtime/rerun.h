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

#include "passes/rerunnable.h"
#include "runtime/program.h"

namespace thunder {

/// The inputs of one call, for a rerun: tensors by weak references, so that none lives longer for it.
class CallInputs {
 public:
  void add(const c10::IValue& input);
  /// Why input `i` is not what it was: gone, or, if `as_it_was`, written to since the call; empty if it is.
  std::string problem(size_t i, bool as_it_was) const;
  /// The tensor or number; an undefined tensor for one that is gone.
  c10::IValue get(size_t i) const;

 private:
  struct Input {
    std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> tensor;
    uint32_t version = 0;
    c10::IValue number;
  };
  std::vector<Input> inputs_;
};

/// The function that an entry was compiled from, for PyTorch's autograd.  All work on it waits for its first use.
class Rerun {
 public:
  /// `primal`: the trace before the compiler's passes; `differentiable`: the outputs that get cotangents.
  Rerun(Trace primal, std::vector<size_t> differentiable)
      : primal_(std::move(primal)), differentiable_(std::move(differentiable)) {}

  /// Why the function cannot be run again to the same end on the inputs of this call; empty if it can.
  std::string problem(const CallInputs& inputs);

  /// Once problem() is empty: the gradients of the inputs that `wanted` marks, undefined where no used output depends on
  /// an input.  `cotangents`: one per differentiable output, undefined for unused ones.  The results' history leads to
  /// the inputs of the call and to the cotangents.  Releases the GIL while autograd runs.
  torch::autograd::variable_list gradients(const CallInputs& inputs, const torch::autograd::variable_list& cotangents,
                                           const std::vector<char>& wanted);

 private:
  const std::string& problem();
  void prepare();

  const Trace primal_;
  const std::vector<size_t> differentiable_;
  std::mutex mutex_;
  bool prepared_ = false;
  std::vector<char> matters_;  // per input: its values are read, and not only its memory
  std::shared_ptr<Program> program_;
  std::string problem_;
};

}  // namespace thunder
