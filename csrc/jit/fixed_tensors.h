// Captured tensors whose elements a compilation may look at: buffers, mostly (a triangle of ones that masks are cut of).
//
// PyTorch counts the writes to a tensor.  As long as a tensor is the same, in the same memory, and its count has not
// changed, its elements have not.  Otherwise what was seen of them is asked anew.  Writes that PyTorch does not count
// (through `.data`, or by another library) are not seen, as autograd does not see them.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "frontend/acquired.h"
#include "jit/known_mask.h"

namespace thunder {

/// The inputs of the computation that are such tensors, in this call.  Not those that require a gradient.
FixedTensors fixed_tensors(const frontend::Acquired& acquired);

/// What a program depends on of its fixed inputs.
class FixedInputs {
 public:
  using TensorOf = std::function<const at::Tensor&(size_t input)>;

  /// `holds`: whether the program is right for other elements as well.  It is asked a limited number of times: where
  /// elements change from call to call, `*changing` becomes true, and the program serves no call any more.
  void add(const frontend::Acquired& acquired, const std::vector<ValueId>& inputs, const FixedTensors& now,
           std::function<bool(const FixedTensors&)> holds, std::shared_ptr<std::atomic<bool>> changing);
  bool empty() const { return checks_.empty(); }
  bool hold(const TensorOf& tensor_of, std::string* why);

 private:
  struct Seen {
    size_t input;
    ValueId id;
    const void* tensor;
    const void* memory;
    int64_t writes;
  };
  struct Check {
    std::vector<Seen> seen;
    std::function<bool(const FixedTensors&)> holds;
    std::shared_ptr<std::atomic<bool>> changing;
    int asked = 0;
  };
  std::vector<Check> checks_;
};

}  // namespace thunder
