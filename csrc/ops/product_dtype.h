// The precision of products inside of composites.
//
// PyTorch writes some operators as compositions (einsum, tensordot, inner, ...), whose matrix products autocast sees one
// by one.  Bodies that multiply as these do pass their operands through product_operand().
#pragma once

#include <optional>

#include "core/builder.h"

namespace thunder::ops {

/// While it lives, product operands on devices of the kind are cast to `dtype` in this thread.
class ProductDtype {
 public:
  ProductDtype(DeviceType device, std::optional<DType> dtype);
  ~ProductDtype();
  ProductDtype(const ProductDtype&) = delete;

 private:
  DeviceType device_before_;
  std::optional<DType> dtype_before_;
};

/// Whether autocast casts such a tensor.
bool autocasts(const TensorType& t, DeviceType device);
/// The operand as a product takes it: cast where a ProductDtype says so, else as it is.
Expr product_operand(const Expr& x);

}  // namespace thunder::ops
