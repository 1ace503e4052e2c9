#include "runtime/backward_calls.h"

#include <ATen/ops/add.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace thunder {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;
using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl>;

thread_local RunningBackward* innermost = nullptr;

void add_to_grad(const at::Tensor& t, const at::Tensor& gradient) {
  if (t.grad().defined()) t.mutable_grad() = at::add(t.grad(), gradient);
  else if (gradient.layout() == at::kStrided) t.mutable_grad() = gradient.clone(at::MemoryFormat::Contiguous);
  else t.mutable_grad() = gradient.clone();
}

// PyTorch moves the hook to the node of what is written to the tensor in place: from then on it is as PyTorch's own.
class RetainsGrad final : public torch::autograd::FunctionPreHook {
 public:
  RetainsGrad(const Node& node, WeakTensor result) : node_(&node), result_(std::move(result)) {}

  variable_list operator()(const variable_list& gradients) override {
    const at::Tensor t(result_.lock());
    if (!t.defined() || t.grad_fn().get() == node_) return gradients;
    const at::Tensor& gradient = gradients.at(t.output_nr());
    if (gradient.defined()) add_to_grad(t, gradient);
    return gradients;
  }

 private:
  const Node* node_;
  WeakTensor result_;
};

}  // namespace

RunningBackward::RunningBackward(Node& node, BackwardCalls& calls, uint64_t used)
    : node_(node), calls_(calls), used_(used), outer_(std::exchange(innermost, this)) {}
RunningBackward::~RunningBackward() { innermost = outer_; }
RunningBackward* RunningBackward::current() { return innermost; }

void RunningBackward::keep_gradient(size_t place, const at::Tensor& gradient) {
  const auto& retained = calls_.retained.at(place);
  if (!retained) return;
  const at::Tensor t(retained->lock());
  if (t.defined() && t.grad_fn().get() == &node_) add_to_grad(t, gradient);
}

variable_list kept_gradients(const BackwardCalls& calls) {
  variable_list out;
  for (const auto& retained : calls.retained) {
    const at::Tensor t = retained ? at::Tensor(retained->lock()) : at::Tensor();
    if (t.defined() && t.grad().defined()) out.push_back(t.grad());
  }
  return out;
}

void retain_gradient(Node& node, BackwardCalls& calls, const at::Tensor& result) {
  WeakTensor weak(result.getIntrusivePtr());
  torch::autograd::impl::get_autograd_meta(result)->retains_grad_ = true;
  node.add_retains_grad_hook(std::make_unique<RetainsGrad>(node, weak), result.output_nr());
  calls.retained.emplace_back(std::move(weak));
}

}  // namespace thunder
