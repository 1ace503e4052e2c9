// Questions to nodes of autograd's graph: who sees what passes along an edge, and in which stream a node runs.
#pragma once

#include <optional>
#include <unordered_set>

namespace torch::autograd {
struct Node;
}

namespace thunder {

bool has_hooks(const torch::autograd::Node& node);

/// Whether the engine would run the node in the stream that is current here.  Nothing for a node without a stream.
std::optional<bool> runs_in_current_stream(torch::autograd::Node& node);

/// Looks for hooks from several nodes on, and at no node twice.
class HookSearch {
 public:
  /// Whether there are hooks on the node, or on any that a gradient goes on to from there.
  bool found_from(const torch::autograd::Node* node);

 private:
  std::unordered_set<const torch::autograd::Node*> without_;  // hooks, there and behind
};

}  // namespace thunder
