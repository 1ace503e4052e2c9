// Captured tensors whose elements a compilation may look at: buffers, mostly (a triangle of ones that masks are cut of).
//
// PyTorch counts the writes to a tensor.  As long as a tensor is the same, in the same memory, and its count has not
// changed, its elements have not.  Otherwise what was seen of them is asked anew.  Writes that PyTorch does not count
// (through `.data`, or by an array that a tensor gave) are not seen, as autograd does not see them.  Memory that PyTorch
// does not own, such as an array's, is never taken for fixed.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
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

  /// `holds`: whether the program is right for other elements as well.  Where it is asked in most calls, `*changing`
  /// becomes true, and the program serves no call any more.
  void add(const frontend::Acquired& acquired, const std::vector<ValueId>& inputs, const FixedTensors& now,
           std::function<bool(const FixedTensors&)> holds, std::shared_ptr<std::atomic<bool>> changing);
  bool empty() const { return checks_.empty(); }
  bool hold(const TensorOf& tensor_of, std::string* why);

 private:
  // The weak reference keeps the address from another tensor.
  struct State {
    explicit State(const at::Tensor& t);
    bool is(const at::Tensor& t) const;
    c10::weak_intrusive_ptr<c10::TensorImpl> tensor;
    const void* memory;
    int64_t writes;
  };
  using States = std::vector<State>;
  struct Check {
    std::vector<std::pair<size_t, ValueId>> inputs;
    States seen, refused;
    std::function<bool(const FixedTensors&)> holds;
    std::shared_ptr<std::atomic<bool>> changing;
    int asked = 0, unchanged = 0;
  };
  static bool all(const States& states, const Check& check, const TensorOf& tensor_of);
  static bool ask(Check& check, const TensorOf& tensor_of);
  std::vector<Check> checks_;
};

}  // namespace thunder
