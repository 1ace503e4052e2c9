#include <Python.h>

#include <ATen/Context.h>

#include <mutex>
#include <optional>
#include <unordered_map>

#include "executors/attention/kernels.h"

namespace thunder::attention {
namespace {

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
  PyGILState_STATE state = PyGILState_Ensure();
  Gpu gpu{static_cast<int>(call_number("torch.cuda", "get_device_capability", "i", device.index, true)),
          call_number("torch.backends.cudnn", "version", "", 0, false)};
  PyGILState_Release(state);
  if (gpu.capability == 0) return gpu;
  std::lock_guard lock(mutex);
  return known.emplace(device.index, gpu).first->second;
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
  return out;
}

}  // namespace thunder::attention
