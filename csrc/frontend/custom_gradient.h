// torch.autograd.Function: its forward is a part of the program, its backward the gradient of what the forward gives.
//
//   y = Scale.apply(x)        t1 = mul(x, 2)                         # forward(), as under no_grad
//                             (t2,) = Scale_augmented((t1,), (x,), ())   # t1 again, with the recorded backward()
//
// The third argument is what else the backward reads, so that passes know that it is needed.
//
// Owns nothing.  Calls the proxies and the tensors.
#pragma once

#include <string>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/proxies.h"
#include "frontend/tensors.h"

namespace thunder {
struct RecordedGradient;
}

namespace thunder::frontend {

class CustomGradients {
 public:
  CustomGradients(Acquisition& acquisition, Proxies& proxies, Tensors& tensors)
      : b_(acquisition.builder()),
        arena_(acquisition.arena()),
        aliases_(acquisition.aliases()),
        proxies_(proxies),
        tensors_(tensors) {}

  /// `outputs` again, as functions of `inputs` whose gradient is `backward`: a function from the outputs' gradients to a
  /// list of the inputs', each a tensor or None.  It runs now, on proxies.
  std::vector<Ref> with_gradient(const std::vector<PyObject*>& outputs, const std::vector<PyObject*>& inputs,
                                 PyObject* backward, const std::string& name);
  /// The calls of such a function.  The rule's placeholders are the gradients that it is given, and its results become
  /// what the rule puts.
  std::vector<const Call*> record_backward(PyObject* backward, const std::vector<Value>& inputs,
                                           const std::string& name, RecordedGradient& rule);

 private:
  Arg fit_gradient(PyObject* gradient, Value input, const std::string& name);

  Builder& b_;
  const std::shared_ptr<Arena>& arena_;
  AliasTracker& aliases_;
  Proxies& proxies_;
  Tensors& tensors_;
};

}  // namespace thunder::frontend
