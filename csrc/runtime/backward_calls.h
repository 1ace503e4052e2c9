// State of a compiled function's call that the Python calls in its backward need, such as the user's hooks.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace thunder {

/// Belongs to one node of autograd's.
struct BackwardCalls {
  /// The results whose gradients their .grad keeps, by place; nothing for those that nobody has.
  std::vector<std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>>> retained;
  /// A dict of Python's, which calls in one backward share.
  std::shared_ptr<void> notes;
};

/// A backward that runs in this thread, for a scope.
class RunningBackward {
 public:
  /// `used`: the bits of the outputs that have a gradient (passes/reach.h).
  RunningBackward(torch::autograd::Node& node, BackwardCalls& calls, uint64_t used);
  ~RunningBackward();
  RunningBackward(const RunningBackward&) = delete;
  RunningBackward& operator=(const RunningBackward&) = delete;

  /// Null where none runs.
  static RunningBackward* current();

  bool uses(uint64_t outputs) const { return (used_ & outputs) != 0; }
  BackwardCalls& calls() { return calls_; }
  /// Adds to the .grad of the result at that place, as retain_grad() does, if the caller still has it, and has not
  /// written to it.
  void keep_gradient(size_t place, const at::Tensor& gradient);

 private:
  torch::autograd::Node& node_;
  BackwardCalls& calls_;
  const uint64_t used_;
  RunningBackward* const outer_;
};

/// The .grad of the results that keep their gradients, where there is one.
torch::autograd::variable_list kept_gradients(const BackwardCalls& calls);

/// Makes a result of the node, which takes the next place, keep the gradient that the node's backward gives to it.
void retain_gradient(torch::autograd::Node& node, BackwardCalls& calls, const at::Tensor& result);

}  // namespace thunder
