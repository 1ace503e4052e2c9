// Hooks of tensors that the program computes: what autograd calls with a tensor's gradient is a call in the backward.
//
//   t1 = tanh(x)                            t3 = tanh(x)
//   t2 = mul(t1, t1)           -->          (t1,) = register_hook_augmented((t3,), (t3,), ())
//   t1.register_hook(f)                     t2 = mul(t1, t1)
//
// The call that makes the tensor gives another value, so that what read it before reads it behind the hook: the hook
// gets the whole gradient.  Hooks run in the order in which they were registered, the one of retain_grad() last.
//
// Owns the hooks, the tensors that keep their gradients, and the calls behind which no hook can come.  Calls the tensors
// and the custom gradients.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/custom_gradient.h"
#include "frontend/tensors.h"

namespace thunder::frontend {

class GradientHooks {
 public:
  GradientHooks(Acquisition& acquisition, Tensors& tensors, CustomGradients& custom)
      : acquisition_(acquisition),
        b_(acquisition.builder()),
        aliases_(acquisition.aliases()),
        tensors_(tensors),
        custom_(custom) {}

  /// Why no hook can be put behind the tensor; empty if one can.
  std::string why_none(PyObject* tensor);
  /// Puts a call behind the tensor, for all that reads it, before this line too.  `backward`: a function from the
  /// tensor's gradient to a list of one, which runs now, on proxies.  `last`: behind the hooks of the tensor that are
  /// still to come.  Returns the hook's number.
  size_t put(PyObject* tensor, PyObject* backward, const std::string& name, bool last);
  /// Takes a hook away again.
  void remove(size_t number);
  /// Whether there is a hook behind the value.
  bool is_hooked(Value v) const { return hooked_.count(v.id()) != 0; }
  /// Hooks stand in the computation: the gradient of what the epilogue makes by these views must come by there.
  void check_views(const std::vector<const Call*>& views) const;

  /// A torch.autograd.grad has taken the rule of this call, and of those in its body, and keeps no graph.
  void free_graph(const Call& call);
  bool is_freed(const Call* call) const { return freed_.count(call) != 0; }

  /// A tensor that keeps its gradient, and what it was when that was asked for.
  struct Retained {
    Ref tensor;
    Value value;
  };
  /// The tensor's gradient is to be kept in its .grad: the place under which the backward gives it (Acquired::retained);
  /// nothing where that has been asked for.
  std::optional<size_t> retain(PyObject* tensor);
  /// By place.
  const std::vector<Retained>& retained() const { return retained_; }

 private:
  const Call* hook_call(Value in, Value out, PyObject* backward, const std::string& name);

  Acquisition& acquisition_;
  Builder& b_;
  AliasTracker& aliases_;
  Tensors& tensors_;
  CustomGradients& custom_;
  std::unordered_map<ValueId, Value> hooked_;     // of values that have hooks, the one behind which the next goes
  std::unordered_set<const Call*> hooked_views_;  // the last views of paths that lead to tensors with hooks
  std::vector<std::pair<Ref, TensorId>> hooked_tensors_;
  std::vector<const Op*> hooks_;  // by number
  std::vector<Retained> retained_;
  std::unordered_set<const Call*> freed_;
};

}  // namespace thunder::frontend
