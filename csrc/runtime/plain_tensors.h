// Tensors whose memory kernels may read.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

namespace thunder {

/// Dispatch keys of tensors whose elements are not what lies in a memory of their own: wrappers (fake tensors, batches
/// of vmap, classes with __torch_dispatch__), zeros without memory, negatives and conjugates of what lies there, codes.
inline constexpr c10::DispatchKeySet kKeysWithoutMemory = c10::DispatchKeySet(
    {c10::DispatchKey::Python, c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor,
     c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Batched,
     c10::DispatchKey::BatchedNestedTensor, c10::DispatchKey::Functionalize, c10::DispatchKey::NestedTensor,
     c10::DispatchKey::Quantized, c10::DispatchKey::MkldnnCPU});

/// Whether kernels may read the tensor's memory as its elements.
inline bool is_plain(const at::Tensor& t) { return (t.unsafeGetTensorImpl()->key_set() & kKeysWithoutMemory).empty(); }

/// The same of its elements' absolute values: is_neg() says which sign they have.
inline bool is_plain_but_negative(const at::Tensor& t) {
  constexpr c10::DispatchKeySet keys = kKeysWithoutMemory - c10::DispatchKeySet(c10::DispatchKey::Negative);
  return (t.unsafeGetTensorImpl()->key_set() & keys).empty();
}

}  // namespace thunder
