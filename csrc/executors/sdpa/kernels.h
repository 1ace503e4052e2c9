// What the records of attention kernels share: layouts of their results, and how their gradients are put.
#pragma once

#include "core/builder.h"
#include "ops/common.h"
#include "ops/torch/attention.h"

namespace thunder::attention {

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

/// PyTorch's switches now, and the device of the call's query.
ops::torch::AttentionSupport support_of(const Args& a);

}  // namespace thunder::attention
