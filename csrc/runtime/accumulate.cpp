#include "runtime/accumulate.h"

#ifndef AT_PER_OPERATOR_HEADERS
#define AT_PER_OPERATOR_HEADERS  // for the header of AccumulateGrad
#endif

#include <ATen/TensorSubclassLikeUtils.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <mutex>
#include <typeinfo>

#include "runtime/graph_recording.h"
#include "runtime/node_hooks.h"

namespace thunder {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::Node;

// The mutex under which AccumulateGrad itself adds: backwards may run in several threads.  A class derived from it may
// name the member, and a pointer to it serves for every node.
struct MutexAccess : AccumulateGrad {
  static std::mutex& mutex(AccumulateGrad& node) { return node.*(&MutexAccess::mutex_); }
};

// The engine orders a node's stream after those of its inputs; what is added on the same stream needs no order.
bool on_stream_of(AccumulateGrad& node, const at::Device& device) {
  return device.is_cpu() || runs_in_current_stream(node).value_or(false);
}

bool may_be_written(const at::Tensor& t) {
  return t.layout() == at::kStrided && (t.is_cpu() || t.is_cuda()) && t.has_storage() && !at::isTensorSubclassLike(t) &&
         !t.is_nested() && !t._is_zerotensor() && !t.is_neg() && !t.is_conj() && !t.is_inference();
}

// The node at the end of the edge, if it adds to a leaf's .grad.
AccumulateGrad* accumulation_of(const Node& node, size_t i) {
  Node* next = node.next_edge(i).function.get();
  return next && typeid(*next) == typeid(AccumulateGrad) ? static_cast<AccumulateGrad*>(next) : nullptr;
}

bool is_plain_leaf(AccumulateGrad& node) {
  const at::Tensor& leaf = node.variable;
  return leaf.defined() && leaf.is_leaf() && leaf.requires_grad() && !has_hooks(node);
}

}  // namespace

bool LeafAccumulation::allowed_now(const Node& node) {
  // Not empty where only some gradients are asked for, to be accumulated (inputs=) or to be returned (autograd.grad).
  const auto* selection = torch::autograd::get_current_graph_task_exec_info();
  return selection && selection->empty() && !c10::GradMode::is_enabled() && node.post_hooks().empty() &&
         !torch::autograd::AnomalyMode::is_enabled();
}

LeafAccumulation::LeafAccumulation(const Node& node, const std::vector<c10::IValue>& inputs, std::atomic<size_t>& count)
    : node_(node), count_(count) {
  read_.reserve(inputs.size());
  for (const c10::IValue& v : inputs) {
    const at::Tensor* t = defined_tensor(v);
    if (!t) continue;
    all_known_ &= t->has_storage();
    if (!t->has_storage()) continue;
    const auto* begin = static_cast<const char*>(t->storage().data());
    read_.emplace_back(begin, begin + t->storage().nbytes());
  }
}

bool LeafAccumulation::may_add_to(const at::Tensor& gradient, const at::Tensor& leaf) const {
  if (!gradient.defined() || gradient.requires_grad() || !may_be_written(gradient) || !may_be_written(leaf))
    return false;
  if (gradient.scalar_type() != leaf.scalar_type() || gradient.device() != leaf.device() ||
      gradient.sizes() != leaf.sizes())
    return false;
  const auto* begin = static_cast<const char*>(gradient.storage().data());
  const auto* end = begin + gradient.storage().nbytes();
  return all_known_ && std::none_of(read_.begin(), read_.end(),
                                    [&](const auto& range) { return range.first < end && begin < range.second; });
}

bool LeafAccumulation::any(const Node& node, const std::vector<size_t>& results) {
  return std::any_of(results.begin(), results.end(), [&](size_t i) {
    AccumulateGrad* at_end = accumulation_of(node, i);
    if (!at_end) return false;
    std::lock_guard lock(MutexAccess::mutex(*at_end));
    return is_plain_leaf(*at_end) && at_end->variable.grad().defined();
  });
}

bool LeafAccumulation::add(size_t i, Add add) {
  AccumulateGrad* at_end = accumulation_of(node_, i);
  if (!at_end) return false;
  AccumulateGrad& node = *at_end;
  std::lock_guard lock(MutexAccess::mutex(node));
  if (!is_plain_leaf(node)) return false;
  const at::Tensor& leaf = node.variable;
  const at::Tensor& gradient = leaf.grad();
  if (!may_add_to(gradient, leaf) || !on_stream_of(node, gradient.device()) || !add(gradient)) return false;
  torch::autograd::impl::bump_version(gradient);
  ++count_;
  return true;
}

}  // namespace thunder
