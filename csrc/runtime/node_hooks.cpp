#include "runtime/node_hooks.h"

#include <torch/csrc/autograd/function.h>

#include <unordered_set>
#include <vector>

namespace thunder {

using torch::autograd::Node;

bool has_hooks(const Node& n) {
  auto& node = const_cast<Node&>(n);  // some accessors are not const
  return !node.tensor_pre_hooks().empty() || !node.pre_hooks().empty() || !node.post_hooks().empty() ||
         !node.retains_grad_hooks().empty() || node.tensor_post_acc_grad_hooks() != nullptr;
}

bool has_hooks_from(const Node* node) {
  if (!node) return false;
  std::unordered_set<const Node*> seen{node};
  std::vector<const Node*> left{node};
  while (!left.empty()) {
    const Node* next = left.back();
    left.pop_back();
    if (has_hooks(*next)) return true;
    for (const torch::autograd::Edge& e : next->next_edges())
      if (e.function && seen.insert(e.function.get()).second) left.push_back(e.function.get());
  }
  return false;
}

}  // namespace thunder
