#include <Python.h>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <c10/core/DeviceGuard.h>

#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "executors/attention/backend.h"
#include "python/gil.h"
#include "runtime/convert.h"

namespace thunder::attention {
namespace {

using ops::torch::EagerAttention;

// By Python: PyTorch's C++ functions for it live in its CUDA library, which a build must do without.
long call_number(const char* module, const char* function, const char* format, int argument, bool pair) {
  PyObject* m = PyImport_ImportModule(module);
  PyObject* f = m ? PyObject_GetAttrString(m, function) : nullptr;
  PyObject* r = f ? (*format ? PyObject_CallFunction(f, format, argument) : PyObject_CallNoArgs(f)) : nullptr;
  long out = 0;
  if (r && pair && PyTuple_Check(r) && PyTuple_GET_SIZE(r) == 2)
    out = 10 * PyLong_AsLong(PyTuple_GET_ITEM(r, 0)) + PyLong_AsLong(PyTuple_GET_ITEM(r, 1));
  else if (r && PyLong_Check(r)) out = PyLong_AsLong(r);
  Py_XDECREF(r);
  Py_XDECREF(f);
  Py_XDECREF(m);
  if (!PyErr_Occurred()) return out;
  PyErr_Clear();  // no such device, no cuDNN: it supports nothing
  return 0;
}

struct Gpu {
  int capability;
  int64_t cudnn_version;
};

thread_local std::optional<Gpu> other_gpu;

Gpu gpu_of(const Device& device) {
  if (other_gpu) return *other_gpu;
  static std::mutex mutex;
  static std::unordered_map<int, Gpu> known;
  {
    std::lock_guard lock(mutex);
    if (auto it = known.find(device.index); it != known.end()) return it->second;
  }
  // Without the lock: the calls may let go of the GIL.
  const Gpu gpu = [&] {
    const Gil gil;
    return Gpu{static_cast<int>(call_number("torch.cuda", "get_device_capability", "i", device.index, true)),
               call_number("torch.backends.cudnn", "version", "", 0, false)};
  }();
  if (gpu.capability == 0) return gpu;
  std::lock_guard lock(mutex);
  return known.emplace(device.index, gpu).first->second;
}

// A tensor of that type without memory, which nothing may read.
at::Tensor shell(const TensorType& t) {
  const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(t.device.index));
  c10::Storage storage(c10::Storage::use_byte_size_t(), 0, at::DataPtr(nullptr, device), nullptr, false);
  auto impl = c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                   c10::scalarTypeToTypeMeta(to_aten(t.dtype)));
  std::vector<int64_t> sizes, strides;
  for (const Dim& d : t.shape) sizes.push_back(d.specialize());
  for (const Dim& d : t.strides) strides.push_back(d.specialize());
  impl->set_sizes_and_strides(sizes, strides);
  at::Tensor out(std::move(impl));
  if (t.requires_grad) out.set_requires_grad(true);
  return out;
}

// Who computes the call in eager.
std::optional<EagerAttention> eager_attention(const Args& a) {
  const bool windowed = a.op().full_name == ops::torch::kWindowedAttention;
  if (other_gpu || windowed || a.real("dropout_p") == 0 || !at::globalContext().hasCUDA()) return std::nullopt;
  try {
    const at::Tensor query = shell(a.tensor("query"));
    const c10::DeviceGuard guard(query.device());
    std::optional<at::Tensor> mask;
    if (a.has("attn_mask")) mask = shell(a.tensor("attn_mask"));
    const int64_t choice =
        at::_fused_sdp_choice(query, shell(a.tensor("key")), shell(a.tensor("value")), mask, a.real("dropout_p"),
                              a.flag("is_causal"), ops::torch::attention_scale(a), a.flag("enable_gqa"));
    if (choice == static_cast<int64_t>(at::SDPBackend::cudnn_attention)) return EagerAttention::Cudnn;
    return choice == static_cast<int64_t>(at::SDPBackend::math) ? EagerAttention::Math : EagerAttention::Fused;
  } catch (const c10::Error&) {  // a PyTorch that looks at memory for it
    return std::nullopt;
  }
}

}  // namespace

OtherGpu::OtherGpu(int capability, int64_t cudnn_version) { other_gpu = Gpu{capability, cudnn_version}; }
OtherGpu::~OtherGpu() { other_gpu.reset(); }

ops::torch::AttentionSupport support_of(const Args& a) {
  const at::Context& context = at::globalContext();
  ops::torch::AttentionSupport out{
      .flash = context.userEnabledFlashSDP(),
      .efficient = context.userEnabledMemEfficientSDP(),
      .cudnn = context.userEnabledCuDNNSDP() &&
               (!context.deterministicAlgorithms() || context.deterministicAlgorithmsWarnOnly())};
  const Device& device = a.tensor("query").device;
  if (device.type != DeviceType::cuda) return out;
  Gpu gpu = gpu_of(device);
  out.capability = gpu.capability;
  out.cudnn_version = gpu.cudnn_version;
  out.eager = eager_attention(a);
  return out;
}

}  // namespace thunder::attention
