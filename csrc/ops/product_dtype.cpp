#include "ops/product_dtype.h"

namespace thunder::ops {
namespace {

thread_local DeviceType t_device = DeviceType::cpu;
thread_local std::optional<DType> t_dtype;

}  // namespace

ProductDtype::ProductDtype(DeviceType device, std::optional<DType> dtype)
    : device_before_(t_device), dtype_before_(t_dtype) {
  t_device = device;
  t_dtype = dtype;
}

ProductDtype::~ProductDtype() {
  t_device = device_before_;
  t_dtype = dtype_before_;
}

bool autocasts(const TensorType& t, DeviceType device) {
  return t.device.type == device && is_floating(t.dtype) && t.dtype != DType::f64;
}

Expr product_operand(const Expr& x) {
  if (!t_dtype || !autocasts(x.tensor(), t_device) || x.dtype() == *t_dtype) return x;
  return x.builder()("torch.to", x, *t_dtype);
}

}  // namespace thunder::ops
