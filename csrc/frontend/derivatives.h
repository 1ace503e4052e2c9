// Transforms of torch.func: a function is recorded apart, on inputs that require gradients for it alone, and its calls
// are then made again for the program's tensors.
//
//   pull = vjp(f, x)          # apart: x1 requires a gradient     # of the program, whose x does or does not
//                             t1 = sin(x1)                        t3 = sin(x)
//   pull(g)                   # the gradient for any g1
//                             t2 = mul(g1, cos(x1))               t4 = mul(g, cos(x))
//
// So whether a result requires a gradient is what the program's tensors say, and functions of such functions are
// differentiated, and batched, as all others are.
//
// Owns the pullbacks.  Calls the functions apart, the proxies, the tensors and the layouts.
#pragma once

#include <utility>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/functions_apart.h"
#include "frontend/layouts.h"
#include "passes/replay.h"
#include "passes/visit.h"

namespace thunder {
struct PartialGradients;
}

namespace thunder::frontend {

class Derivatives {
 public:
  Derivatives(Acquisition& acquisition, Layouts& layouts, Proxies& proxies, Tensors& tensors, FunctionsApart& functions)
      : acquisition_(acquisition),
        b_(acquisition.builder()),
        aliases_(acquisition.aliases()),
        layouts_(layouts),
        proxies_(proxies),
        tensors_(tensors),
        functions_(functions) {}

  struct PullbackOptions {
    bool recording = false;      ///< gradients flow through the calls where the program's tensors require any
    bool linear = false;         ///< what pull() gives is to be differentiated for the cotangents
    bool any_cotangent = false;  ///< cotangents may require gradients where nothing else does
  };
  /// Records a function of tensors, which returns a list of such, as calls of the program, and its gradient apart.
  /// Returns that list and a number for pull().
  std::pair<Ref, size_t> pullback(PyObject* fn, const std::vector<PyObject*>& inputs, const PullbackOptions& options);
  /// The gradients of the inputs for these of the results, or None for ones.
  std::vector<Ref> pull(size_t number, const std::vector<PyObject*>& cotangents);

 private:
  // The gradient of a function, for any gradients of its results.
  struct Pullback {
    Replay function;  // what stands for the function's values, which the calls read
    std::vector<Value> given, cotangents = {};
    std::vector<const Call*> calls = {};
    std::vector<Arg> gradients = {};
    bool twice = false;  // gradients flow through the calls
    size_t scope = 0;    // in which it can be used
  };
  void put_function(const FunctionApart& f, const ValueSet& read, Replay& calls);
  PartialGradients rules_apart(const std::vector<const Call*>& calls, const std::vector<std::pair<Value, Value>>& seeds,
                               const std::vector<Value>& inputs);

  Acquisition& acquisition_;
  Builder& b_;
  AliasTracker& aliases_;
  Layouts& layouts_;
  Proxies& proxies_;
  Tensors& tensors_;
  FunctionsApart& functions_;
  std::vector<Pullback> pullbacks_;  // by number
};

}  // namespace thunder::frontend
