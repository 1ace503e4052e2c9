// Memory for results.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/util/strides.h>

#include "runtime/host_memory.h"

namespace thunder {

/// An empty tensor without the dispatcher: a step of a large model makes hundreds.  On CUDA it lies on the current
/// device.
inline at::Tensor allocate(c10::DeviceType device, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                           at::ScalarType type) {
  if (device == c10::DeviceType::CPU) return at::Tensor(at::detail::empty_strided_cpu(sizes, strides, type));
  static c10::Allocator* const allocator = c10::GetAllocator(c10::DeviceType::CUDA);
  return at::Tensor(
      at::detail::empty_strided_generic(sizes, strides, allocator, c10::DispatchKeySet(c10::DispatchKey::CUDA), type));
}

/// The same, row-major.
inline at::Tensor allocate(c10::DeviceType device, c10::IntArrayRef sizes, at::ScalarType type) {
  return allocate(device, sizes, c10::contiguous_strides(sizes), type);
}

/// A tensor in the memory of `donor`, if nobody else holds that and it is neither too small nor too large; else undefined.
/// The caller gives up `donor`.  Only on the CPU: PyTorch's allocator on CUDA may know of another stream that still reads
/// the memory, and would wait for it.
inline at::Tensor allocate_in(const at::Tensor& donor, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                              at::ScalarType type, size_t bytes) {
  if (!donor.is_cpu() || donor.use_count() != 1 || donor.weak_use_count() != 1 || donor.storage_offset() != 0)
    return {};
  const c10::Storage& storage = donor.storage();
  if (storage.use_count() != 1 || storage.nbytes() != bytes || !is_own_host_memory(storage.data_ptr())) return {};
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

}  // namespace thunder
