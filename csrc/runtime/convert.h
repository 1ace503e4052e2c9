// Between the compiler's dtypes, devices and literals, and PyTorch's.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "core/value.h"

namespace thunder {

at::ScalarType to_aten(DType t);
DType from_aten(at::ScalarType t);
at::Device to_aten(const Device& d);
Device from_aten(const at::Device& d);
std::optional<Layout> from_aten(at::Layout layout);  ///< nothing for layouts that a program cannot have
/// torch.contiguous_format and the like; Error (Value) for others.
at::MemoryFormat memory_format_of(const std::string& constant);
at::Layout layout_of(const std::string& constant);
at::Scalar scalar_of(const Arg& literal);

/// A Python number as an operand of a tensor operation: 0-d, on the CPU, and weak in type promotion.  PyTorch shows it
/// to Python's dispatch modes as the number, which few operators take.
at::Tensor wrapped_number(const at::Scalar& s);
/// The same for all other operators, in the dtype of the operation; wrapped where that is undefined.
at::Tensor number_as_tensor(const at::Scalar& s, at::ScalarType dtype);

/// A literal that needs no type to say what it is in ATen; lists of ints are int lists, other lists generic.
c10::IValue literal_to_ivalue(const Arg& literal);

/// Makes torch.get_default_dtype() the compiler's: at the start of a compilation, and where a program changes a setting
/// of PyTorch.
void adopt_default_dtype();
/// Larger after each adopt_default_dtype(): what an operator gave is remembered while this stays the same.
uint64_t settings_version();
/// The index of the device that PyTorch takes now where none is given; -1 for types that this PyTorch has no device of.
int16_t current_device_index(DeviceType type);

/// A tensor's type, strides and requires_grad included.
TensorType type_of(const at::Tensor& t);

}  // namespace thunder
