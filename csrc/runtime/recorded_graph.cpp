#include "runtime/recorded_graph.h"

#include <ATen/ops/add.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <functional>
#include <map>
#include <unordered_map>

#include "runtime/gil.h"
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

// A backward over the nodes between some results and the leaves.
class Walk {
 public:
  Walk(const variable_list& inputs, bool keep) : found_(inputs.size()), keep_(keep) {
    for (size_t i = 0; i < inputs.size(); ++i)
      leaves_[torch::autograd::impl::gradient_edge(inputs[i]).function.get()] = i;
  }

  void arrive(const Edge& edge, at::Tensor gradient) {
    if (!edge.is_valid()) return;
    auto leaf = leaves_.find(edge.function.get());
    if (leaf != leaves_.end()) return accumulate(found_[leaf->second], std::move(gradient));
    if (edge.function->num_outputs() == 0) return;  // a leaf that the operator found elsewhere
    variable_list& into = waiting_[{edge.function->topological_nr(), edge.function.get()}];
    if (into.empty()) into.resize(edge.function->num_inputs());
    accumulate(into.at(edge.input_nr), std::move(gradient));
  }

  // Whether nothing needs the engine: hooks, another stream, or a backward for some inputs only, whose nodes ask it
  // which of their gradients to compute.
  bool is_plain() const {
    const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
    if (wanted && !wanted->empty()) return false;
    HookSearch hooks;
    for (const auto& [key, _] : waiting_)
      if (hooks.found_from(key.second) || !in_its_stream(*key.second)) return false;
    return true;
  }

  variable_list run() {
    at::AutoGradMode off(false);
    while (!waiting_.empty()) {
      // All who use a node's results are farther from the leaves than the node is.
      auto next = waiting_.extract(waiting_.begin());
      Node* node = next.key().second;
      if (!keep_) node->will_release_variables();
      variable_list made = (*node)(std::move(next.mapped()));
      if (!keep_) node->release_variables();
      const edge_list& edges = node->next_edges();
      made.resize(edges.size());
      torch::autograd::validate_outputs(edges, made, [&](const std::string& m) { return node->name() + ": " + m; });
      for (size_t i = 0; i < edges.size(); ++i) arrive(edges[i], std::move(made[i]));
    }
    return std::move(found_);
  }

 private:
  static bool in_its_stream(Node& node) {
    std::optional<c10::Stream> stream = node.stream();
    if (!stream) return true;
    return c10::impl::getDeviceGuardImpl(stream->device_type())->getStream(stream->device()) == *stream;
  }

  using Place = std::pair<uint64_t, Node*>;
  std::map<Place, variable_list, std::greater<Place>> waiting_;
  std::unordered_map<const Node*, size_t> leaves_;
  variable_list found_;
  bool keep_;
};

}  // namespace

RecordedGraph::RecordedGraph(variable_list inputs, const variable_list& outputs) : inputs_(std::move(inputs)) {
  for (const at::Tensor& t : outputs)
    outputs_.push_back(t.requires_grad() ? torch::autograd::impl::gradient_edge(t) : Edge());
}

variable_list RecordedGraph::gradients(const std::vector<std::pair<size_t, at::Tensor>>& cotangents, bool keep) const {
  WithoutGil released(PyGILState_Check());
  Walk walk(inputs_, keep);
  edge_list roots, leaves;
  variable_list given;
  for (const auto& [i, gradient] : cotangents) {
    if (!outputs_.at(i).is_valid()) continue;
    roots.push_back(outputs_[i]);
    given.push_back(gradient);
    walk.arrive(outputs_[i], gradient);
  }
  variable_list made;
  if (walk.is_plain()) {
    made = walk.run();
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
