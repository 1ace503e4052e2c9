// Memory for results.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

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

}  // namespace thunder
