#include "runtime/recorded_graph.h"

#include <ATen/ops/add.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <queue>
#include <unordered_map>

#include "python/gil.h"
#include "runtime/node_hooks.h"

namespace thunder {
namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

void accumulate(at::Tensor& sum, at::Tensor more) {
  if (!more.defined()) return;
  if (!sum.defined()) sum = std::move(more);
  // The dense operand comes first.
  else sum = sum.layout() != at::kStrided && more.layout() == at::kStrided ? at::add(more, sum) : at::add(sum, more);
}

// The nodes of which nobody computes gradients any more, the latest in the forward first: in the engine's order, which
// decides in what order gradients are added.
struct Earlier {
  bool operator()(const Node* a, const Node* b) const { return a->sequence_nr() < b->sequence_nr(); }
};

// A backward over the nodes between some results and the leaves.
class NodeBackward {
 public:
  NodeBackward(const variable_list& inputs, bool keep) : found_(inputs.size()), keep_(keep) {
    for (size_t i = 0; i < inputs.size(); ++i)
      leaves_[torch::autograd::impl::gradient_edge(inputs[i]).function.get()] = i;
  }

  // Whether nothing needs the engine: hooks, another stream, or a backward for some inputs only, whose nodes ask it
  // which of their gradients to compute.
  bool takes(const edge_list& roots) {
    const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
    if (wanted && !wanted->empty()) return false;
    std::vector<Node*> left;
    auto depend = [&](const edge_list& edges) {
      for (const Edge& e : edges)
        if (goes_on(e) && expected_[e.function.get()]++ == 0) left.push_back(e.function.get());
    };
    depend(roots);
    while (!left.empty()) {
      Node* node = left.back();
      left.pop_back();
      if (has_hooks(*node) || !runs_in_current_stream(*node).value_or(true)) return false;
      depend(node->next_edges());
    }
    return true;
  }

  // Once takes() has seen the roots.
  variable_list run(const edge_list& roots, const variable_list& cotangents) {
    at::AutoGradMode off(false);
    for (size_t i = 0; i < roots.size(); ++i) arrive(roots[i], cotangents[i]);
    while (!ready_.empty()) {
      Node* node = ready_.top();
      ready_.pop();
      if (!keep_) node->will_release_variables();
      variable_list made = (*node)(std::move(arrived_[node]));
      if (!keep_) node->release_variables();
      const edge_list& edges = node->next_edges();
      made.resize(edges.size());
      torch::autograd::validate_outputs(edges, made, [&](const std::string& m) { return node->name() + ": " + m; });
      for (size_t i = 0; i < edges.size(); ++i) arrive(edges[i], std::move(made[i]));
    }
    return std::move(found_);
  }

 private:
  // To a node that is to be run, and neither a leaf nor one of another call.
  bool goes_on(const Edge& e) const {
    return e.is_valid() && !leaves_.count(e.function.get()) && e.function->num_outputs() > 0;
  }

  void arrive(const Edge& edge, at::Tensor gradient) {
    if (!edge.is_valid()) return;
    Node* node = edge.function.get();
    if (!goes_on(edge)) {
      if (auto leaf = leaves_.find(node); leaf != leaves_.end()) accumulate(found_[leaf->second], std::move(gradient));
      return;
    }
    variable_list& into = arrived_[node];
    if (into.empty()) into.resize(node->num_inputs());
    accumulate(into.at(edge.input_nr), std::move(gradient));
    if (--expected_[node] == 0) ready_.push(node);
  }

  std::unordered_map<const Node*, size_t> leaves_;
  std::unordered_map<const Node*, size_t> expected_;  // how many gradients are still to come
  std::unordered_map<const Node*, variable_list> arrived_;
  std::priority_queue<Node*, std::vector<Node*>, Earlier> ready_;
  variable_list found_;
  bool keep_;
};

}  // namespace

RecordedGraph::RecordedGraph(variable_list inputs, const variable_list& outputs) : inputs_(std::move(inputs)) {
  for (const at::Tensor& t : outputs)
    outputs_.push_back(t.requires_grad() ? torch::autograd::impl::gradient_edge(t) : Edge());
}

variable_list RecordedGraph::gradients(const std::vector<std::pair<size_t, at::Tensor>>& cotangents, bool keep) const {
  WithoutGil released;
  NodeBackward walk(inputs_, keep);
  edge_list roots, leaves;
  variable_list given;
  for (const auto& [i, gradient] : cotangents) {
    if (!outputs_.at(i).is_valid()) continue;
    roots.push_back(outputs_[i]);
    given.push_back(gradient);
  }
  variable_list made;
  if (walk.takes(roots)) {
    made = walk.run(roots, given);
  } else {
    for (const at::Tensor& t : inputs_) leaves.push_back(torch::autograd::impl::gradient_edge(t));
    made = torch::autograd::Engine::get_default_engine().execute(roots, given, keep, /*create_graph=*/false,
                                                                 /*accumulate_grad=*/false, leaves);
  }
  for (size_t i = 0; i < made.size(); ++i)
    if (!made[i].defined()) made[i] = at::zeros_like(inputs_[i]);
  return made;
}

}  // namespace thunder
