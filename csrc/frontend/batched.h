// torch.vmap: the function runs on one sample, and what it calls is then called for the whole batch (passes/batching.h).
//
// Owns nothing.  Calls the functions apart, the proxies and the tensors.
#pragma once

#include <string>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/functions_apart.h"

namespace thunder {
class Batching;
}

namespace thunder::frontend {

class BatchedFunctions {
 public:
  BatchedFunctions(Acquisition& acquisition, Proxies& proxies, Tensors& tensors, FunctionsApart& functions)
      : acquisition_(acquisition),
        b_(acquisition.builder()),
        aliases_(acquisition.aliases()),
        proxies_(proxies),
        tensors_(tensors),
        functions_(functions) {}

  /// What torch.vmap gives for a function of samples, which returns a list of tensors: `batches` have the samples along
  /// their first dimension, and so do the results.  The function runs once, on one sample.  `randomness`: as PyTorch's,
  /// "error", "different" or "same".
  std::vector<Ref> call(PyObject* fn, const std::vector<PyObject*>& batches, const std::string& randomness);

 private:
  std::vector<Ref> put(Batching& batching, const std::vector<const Call*>& calls, const std::vector<Value>& results,
                       const std::vector<PyObject*>& batches);
  Ref wrap_seen(Value v, Value memory, const std::vector<const Call*>& path, const std::vector<PyObject*>& batches);

  Acquisition& acquisition_;
  Builder& b_;
  AliasTracker& aliases_;
  Proxies& proxies_;
  Tensors& tensors_;
  FunctionsApart& functions_;
};

}  // namespace thunder::frontend
