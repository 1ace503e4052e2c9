// Hooks on nodes of autograd's graph: who sees what passes along an edge.
#pragma once

namespace torch::autograd {
struct Node;
}

namespace thunder {

bool has_hooks(const torch::autograd::Node& node);
/// On the node, or on any that a gradient goes on to from there.
bool has_hooks_from(const torch::autograd::Node* node);

}  // namespace thunder
