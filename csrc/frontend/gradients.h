// torch.autograd.grad inside of a program: the rules of the calls so far, as further calls of the program.
//
//   y = x.sin()                                  t1 = sin(x)
//   g, = torch.autograd.grad(y.sum(), x)   -->   t2 = sum(t1) ; t3 = ones_like(t2)
//   return g * y                                 t4 = expand(t3) ; t5 = mul(t4, cos(x)) ; t6 = mul(t5, t1)
//
// With create_graph=True the new calls carry gradients themselves, and the program's autodiff takes their rules.
//
// Owns nothing.  Calls the tensors, the inputs and the gradient hooks.
#pragma once

#include <utility>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/gradient_hooks.h"
#include "frontend/inputs.h"
#include "frontend/proxies.h"
#include "frontend/tensors.h"
#include "passes/visit.h"

namespace thunder {
struct PartialGradients;
}

namespace thunder::frontend {

enum class Differentiated {
  Once,
  Twice,  ///< the gradients are differentiated, too
};

/// Leaves to eager what the program does not differentiate by the rules of these calls.
void check_rules(Acquisition& acquisition, const std::vector<const Call*>& applied, Differentiated differentiated);
/// The gradients, each in memory of its own.  A gradient that shares memory with another value of the program is
/// copied, because the alias tracker does not know the view.
/// `made`: the calls that make the gradients.
std::vector<Arg> in_own_memory(Builder& b, std::vector<Arg> gradients, const std::vector<const Call*>& made);

class Gradients {
 public:
  Gradients(Acquisition& acquisition, Proxies& proxies, Inputs& inputs, Tensors& tensors, GradientHooks& hooks)
      : acquisition_(acquisition),
        b_(acquisition.builder()),
        aliases_(acquisition.aliases()),
        proxies_(proxies),
        inputs_(inputs),
        tensors_(tensors),
        hooks_(hooks) {}

  /// Of torch.autograd.grad.
  struct Options {
    bool create_graph = false, retain_graph = false;
    bool batched = false;  ///< the cotangents are batches of such, and so are the gradients
  };
  /// torch.autograd.grad: the gradients of the inputs, None where none flows.  `cotangents`: of the outputs, or None for
  /// ones.
  std::vector<Ref> of(const std::vector<PyObject*>& outputs, const std::vector<PyObject*>& cotangents,
                      const std::vector<PyObject*>& inputs, const Options& options);

 private:
  using Samples = std::vector<std::pair<Value, Value>>;  // and the batches that stand for them
  void check_differentiable(const std::vector<PyObject*>& outputs, const std::vector<PyObject*>& inputs);
  void require_leaves(const ValueSet& reached, const std::vector<PyObject*>& inputs);
  void check_not_freed(const std::vector<const Call*>& applied);
  std::vector<Arg> batched_gradients(const PartialGradients& made, const Samples& samples);

  Acquisition& acquisition_;
  Builder& b_;
  AliasTracker& aliases_;
  Proxies& proxies_;
  Inputs& inputs_;
  Tensors& tensors_;
  GradientHooks& hooks_;
};

}  // namespace thunder::frontend
