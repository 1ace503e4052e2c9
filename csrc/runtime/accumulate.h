// Gradients that are added to the leaves' .grad by the backward program itself, where PyTorch would only add them
// afterwards: without a tensor of the weight's size in between.
//
// Nobody may be able to tell, up to rounding.  So it happens only while the engine runs a plain backward(), into a
// gradient to which AccumulateGrad, the node at the end of the edge, would add in place; and only if nobody wants to see
// what passes along that edge.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "runtime/instruction.h"

namespace torch::autograd {
struct Node;
}

namespace thunder {

class LeafAccumulation final : public Accumulation {
 public:
  /// Whether the engine of this thread runs a backward() whose gradients all go to the leaves, without a graph of their
  /// own, and nobody looks at what `node` returns.  That it is the engine that calls the node the caller knows.
  static bool allowed_now(const torch::autograd::Node& node);

  /// `inputs`: what the program reads; it adds to nothing that shares memory with them.  `count` goes up by one for each
  /// gradient that was added.  All must outlive the object.
  LeafAccumulation(const torch::autograd::Node& node, const std::vector<c10::IValue>& inputs,
                   std::atomic<size_t>& count);
  bool add(size_t i, Add add) override;
  /// Whether a leaf that one of these results is a gradient of has one that is added to.
  static bool any(const torch::autograd::Node& node, const std::vector<size_t>& results);

 private:
  bool may_add_to(const at::Tensor& gradient, const at::Tensor& leaf) const;

  const torch::autograd::Node& node_;
  std::vector<std::pair<const char*, const char*>> read_;  // memory that the program reads
  bool all_known_ = true;                                  // there is no memory that it reads beside that
  std::atomic<size_t>& count_;
};

}  // namespace thunder
