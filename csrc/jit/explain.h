// Why a call found no program: what it has otherwise than the call that the last program was compiled for.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "runtime/guards.h"

namespace thunder {

/// What a call's key is made of, as far as it can be told.
struct CallFacts {
  Fingerprint fingerprint;
  std::string arguments;             ///< the structure and the values of all that is no tensor
  std::vector<std::string> tensors;  ///< "cpu f32[2, 3] strides=[3, 1] requires_grad"
};

/// `sizes`: the tensor's sizes and strides as the key has them; empty: as they are.
std::string describe(const at::Tensor& tensor, const std::string& sizes);

/// "tensor argument 1 is ..., the program was compiled for ...".
std::string difference(const CallFacts& now, const CallFacts& then);

}  // namespace thunder
