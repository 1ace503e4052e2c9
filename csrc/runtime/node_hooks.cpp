#include "runtime/node_hooks.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

namespace thunder {

using torch::autograd::Node;

bool has_hooks(const Node& n) {
  auto& node = const_cast<Node&>(n);  // some accessors are not const
  return !node.tensor_pre_hooks().empty() || !node.pre_hooks().empty() || !node.post_hooks().empty() ||
         !node.retains_grad_hooks().empty() || node.tensor_post_acc_grad_hooks() != nullptr;
}

std::optional<bool> runs_in_current_stream(Node& node) {
  const std::optional<c10::Stream> stream = node.stream();
  if (!stream) return std::nullopt;
  return *stream == c10::impl::getDeviceGuardImpl(stream->device_type())->getStream(stream->device());
}

bool HookSearch::found_from(const Node* node) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> left;
  auto visit = [&](const Node* n) {
    if (n && !without_.count(n) && seen.insert(n).second) left.push_back(n);
  };
  visit(node);
  while (!left.empty()) {
    const Node* next = left.back();
    left.pop_back();
    if (has_hooks(*next)) return true;
    for (const torch::autograd::Edge& e : next->next_edges()) visit(e.function.get());
  }
  without_.merge(seen);
  return false;
}

}  // namespace thunder
