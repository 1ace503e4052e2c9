// What PyTorch's autograd recorded while one operator ran, and the gradients through it.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>
#include <vector>

namespace thunder {

/// The graph from an operator's results to its arguments.
///
/// PyTorch's engine is made for whole models: to enter it once more within a backward costs several times what the few
/// nodes of one operator do.  gradients() goes over these nodes itself, with the engine's own checks of what they give.
class RecordedGraph {
 public:
  /// `inputs`: the leaves that the operator was called with; `outputs`: all its results.
  RecordedGraph(torch::autograd::variable_list inputs, const torch::autograd::variable_list& outputs);

  /// The gradients of the inputs, zeros where none flows.  `cotangents`: (number of the output, its gradient).  `keep`:
  /// there may be another backward.  To be called with autograd's dispatch keys, as the operator was.
  torch::autograd::variable_list gradients(const std::vector<std::pair<size_t, at::Tensor>>& cotangents,
                                           bool keep) const;

 private:
  torch::autograd::variable_list inputs_;
  torch::autograd::edge_list outputs_;  // invalid for results without a gradient
};

}  // namespace thunder
