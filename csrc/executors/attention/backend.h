// What the executors of attention share: how they take calls, layouts of their kernels' results, how gradients are put.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/builder.h"
#include "ops/common.h"
#include "ops/torch/attention.h"
#include "passes/executor.h"

namespace thunder::attention {

/// Query, key and value as a kernel reads them: heads padded (ops::torch::attention_padding).
struct AttentionOperands {
  Expr query, key, value;
};

/// The kernels of one executor of attention.
struct Backend {
  std::span<const OpDef> records;
  /// Whether one of them fits the call of attention (ops::torch::is_attention).
  bool (*takes)(const Call&);
  /// Calls the record that fits and returns attention's result.  With the prefix "grad_forward_" it calls the variant
  /// of the record that also returns what the gradient reads.
  Expr (*call)(Builder& b, const Args& a, const AttentionOperands& operands, const std::string& prefix);
  /// The mask as numbers that the kernel can read.
  Expr (*mask)(Builder& b, const Args& a);
};
std::shared_ptr<Executor> make_executor(const std::string& name, const Backend& backend);

/// The first result of a call that has one, or several.
Expr first(Builder& b, const Arg& results);
/// The mask without what is only repeated in memory, which kernels repeat themselves.
Expr without_repeats(Builder& b, const Arg& mask);
/// The suffix of the records that draw random numbers; none without dropout.
std::string drawing(const Args& a);

/// A tensor on the device of `like`, below autograd.
TensorType result(const TensorType& like, Dims shape, Dims strides, DType t);
TensorType contiguous_result(const TensorType& like, Dims shape, DType t);
/// [B, H, S, ...] stored as [B, S, H, ...].
TensorType heads_inside(const TensorType& like, const Dims& shape, DType t);
/// As at::empty_like lays it out.
TensorType like(const TensorType& t);
/// Those of query, key and value, each like its own tensor.
Types gradients_like_operands(const Args& a);

Types first_of(const Types& types);

/// The gradients of query, key and value, from a call that gives them in this order.
void put_gradients(VjpContext& c, const Expr& gradients);
/// The gradient with its last dimension dense, as the kernels read it.
Expr dense_last(const Expr& g);

/// While it lives, calls of its thread are taken to be for this GPU, whatever there is here.
class OtherGpu {
 public:
  OtherGpu(int capability, int64_t cudnn_version);
  ~OtherGpu();
  OtherGpu(const OtherGpu&) = delete;
  OtherGpu& operator=(const OtherGpu&) = delete;
};

/// PyTorch's switches now, the device of the call's query, and what eager does with dropout.
ops::torch::AttentionSupport support_of(const Args& a);

}  // namespace thunder::attention
