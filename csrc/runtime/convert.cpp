#include "runtime/convert.h"

#include <ATen/ScalarOps.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

#include "core/error.h"

namespace thunder {
namespace {

// By the name in the row of a dtype (core/dtype.cpp), which is PyTorch's.
std::array<at::ScalarType, kNumDTypes> found_by_name() {
  std::array<at::ScalarType, kNumDTypes> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string_view name = scalar_type_name(static_cast<DType>(i));
    size_t t = 0;
    while (t < c10::NumScalarTypes && name != c10::toString(static_cast<at::ScalarType>(t))) ++t;
    THUNDER_CHECK(t < c10::NumScalarTypes, Internal, "dtype", "PyTorch has no scalar type ", name);
    out[i] = static_cast<at::ScalarType>(t);
  }
  return out;
}

const std::array<at::ScalarType, kNumDTypes>& scalar_types() {
  static const std::array<at::ScalarType, kNumDTypes> types = found_by_name();
  return types;
}

}  // namespace

at::ScalarType to_aten(DType t) { return scalar_types()[static_cast<size_t>(t)]; }

DType from_aten(at::ScalarType t) {
  const auto& types = scalar_types();
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i] == t) return static_cast<DType>(i);
  throw Error(ErrorKind::NotImplemented, cat("tensors of dtype ", c10::toString(t), " are not supported"));
}

at::Device to_aten(const Device& d) {
  switch (d.type) {
    case DeviceType::cpu: return at::Device(at::kCPU, static_cast<at::DeviceIndex>(d.index));
    case DeviceType::cuda: return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(d.index));
    case DeviceType::meta: return at::Device(at::kMeta, static_cast<at::DeviceIndex>(d.index));
    case DeviceType::mps: return at::Device(at::kMPS, static_cast<at::DeviceIndex>(d.index));
    case DeviceType::xpu: return at::Device(at::kXPU, static_cast<at::DeviceIndex>(d.index));
    case DeviceType::other: break;
  }
  throw Error(ErrorKind::NotImplemented, cat("device ", d, " is not supported"));
}

Device from_aten(const at::Device& d) {
  DeviceType type = DeviceType::other;
  switch (d.type()) {
    case at::kCPU: type = DeviceType::cpu; break;
    case at::kCUDA: type = DeviceType::cuda; break;
    case at::kMeta: type = DeviceType::meta; break;
    case at::kMPS: type = DeviceType::mps; break;
    case at::kXPU: type = DeviceType::xpu; break;
    default: break;
  }
  return Device{type, static_cast<int16_t>(d.index())};
}

at::MemoryFormat memory_format_of(const std::string& name) {
  if (name == "torch.contiguous_format") return at::MemoryFormat::Contiguous;
  if (name == "torch.preserve_format") return at::MemoryFormat::Preserve;
  if (name == "torch.channels_last") return at::MemoryFormat::ChannelsLast;
  if (name == "torch.channels_last_3d") return at::MemoryFormat::ChannelsLast3d;
  throw Error(ErrorKind::Value, cat("'", name, "' is not a memory format"));
}

at::Layout layout_of(const std::string& name) {
  if (name == "torch.strided") return at::kStrided;
  if (name == "torch.sparse_coo") return at::kSparse;
  if (name == "torch.sparse_csr") return at::kSparseCsr;
  if (name == "torch.sparse_csc") return at::kSparseCsc;
  throw Error(ErrorKind::Value, cat("'", name, "' is not a layout"));
}

at::Scalar scalar_of(const Arg& a) {
  switch (a.kind()) {
    case Arg::Kind::Bool: return a.boolean();
    case Arg::Kind::Int: return a.dim().constant();
    case Arg::Kind::Complex: return c10::complex<double>(a.complex());
    default: return a.real();
  }
}

at::Tensor wrapped_number(const at::Scalar& s) {
  return at::native::wrapped_scalar_tensor(s);  // without the dispatcher: no mode that is active now sees it
}

at::Tensor number_as_tensor(const at::Scalar& s, at::ScalarType dtype) {
  return dtype == at::ScalarType::Undefined ? wrapped_number(s) : at::detail::scalar_tensor_static(s, dtype, at::kCPU);
}

c10::IValue literal_to_ivalue(const Arg& a) {
  switch (a.kind()) {
    case Arg::Kind::None: return {};
    case Arg::Kind::Bool: return a.boolean();
    case Arg::Kind::Int: return a.dim().constant();
    case Arg::Kind::Float: return a.real();
    case Arg::Kind::Complex: return c10::complex<double>(a.complex());
    case Arg::Kind::Str: return a.str();
    case Arg::Kind::DType: return static_cast<int64_t>(to_aten(a.dtype()));
    case Arg::Kind::Device: return to_aten(a.device());
    case Arg::Kind::Constant:
      if (a.constant().name.starts_with("torch.strided") || a.constant().name.starts_with("torch.sparse"))
        return static_cast<int64_t>(layout_of(a.constant().name));
      if (a.constant().name == "...") return std::string("...");
      return static_cast<int64_t>(memory_format_of(a.constant().name));
    case Arg::Kind::List:
    case Arg::Kind::Tuple: {
      c10::impl::GenericList list(c10::AnyType::get());
      for (const Arg& item : a.items()) list.push_back(literal_to_ivalue(item));
      return list;
    }
    default: break;
  }
  throw Error(ErrorKind::NotImplemented, "an argument of this kind cannot be passed to a PyTorch operator");
}

static std::atomic<uint64_t> version{0};

void adopt_default_dtype() {
  ++version;
  set_default_dtype(from_aten(c10::get_default_dtype_as_scalartype()));
}

uint64_t settings_version() { return version; }

int16_t current_device_index(DeviceType type) {
  if (type != DeviceType::cuda && type != DeviceType::xpu) return -1;
  c10::DeviceType t = to_aten(Device{type, -1}).type();
  if (!c10::impl::hasDeviceGuardImpl(t)) return -1;
  try {
    return std::max<int16_t>(c10::impl::getDeviceGuardImpl(t)->getDevice().index(), 0);
  } catch (const c10::Error&) {
    return -1;  // no driver: who uses the device gets PyTorch's own error
  }
}

std::optional<Layout> from_aten(at::Layout layout) {
  switch (layout) {
    case at::kStrided: return Layout::Strided;
    case at::kSparse: return Layout::SparseCoo;
    case at::kSparseCsr: return Layout::SparseCsr;
    case at::kSparseCsc: return Layout::SparseCsc;
    default: return std::nullopt;
  }
}

TensorType type_of(const at::Tensor& t) {
  std::optional<Layout> layout = from_aten(t.layout());
  THUNDER_CHECK(layout, NotImplemented, "jit",
                "a compiled function takes dense tensors and sparse ones without blocks, got one of layout ",
                t.layout(), "; call it with to_dense(), or do what is sparse outside of it");
  TensorType out;
  out.layout = *layout;
  if (!out.strided()) out.dense_dims = t.dense_dim();
  out.dtype = from_aten(t.scalar_type());
  out.device = from_aten(t.device());
  for (int64_t s : t.sizes()) out.shape.emplace_back(s);
  if (out.strided())
    for (int64_t s : t.strides()) out.strides.emplace_back(s);
  out.requires_grad = t.requires_grad();
  return out;
}

}  // namespace thunder
