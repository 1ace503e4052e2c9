#include "runtime/cuda_module.h"

namespace thunder {

std::shared_ptr<CudaModule> CudaModule::of(const std::string& name, const std::string& text) {
  static std::mutex mutex;
  // Never destroyed: calls of other static objects may still ask for a module when the process ends.
  static auto* known = new std::map<std::string, std::weak_ptr<CudaModule>>;
  std::lock_guard lock(mutex);
  std::weak_ptr<CudaModule>& slot = (*known)[text];
  std::shared_ptr<CudaModule> module = slot.lock();
  if (!module) slot = module = std::make_shared<CudaModule>(name, text);
  return module;
}

CudaModule::CudaModule(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  if (cuda_available()) compiled(0);
}

CudaModule::~CudaModule() {
  for (auto& [device, cubin] : cubins_) cubin.finish();
}

const CudaKernel* CudaModule::find(const std::string& function, int device, std::string* why) {
  if (!cuda_available(why)) return nullptr;
  const Compilation<CompiledCubin> compilation = compiled(device);
  const CompiledCubin& cubin = compilation.get();
  if (!cubin.ok()) {
    *why = cubin.log;
    return nullptr;
  }
  std::lock_guard lock(mutex_);
  std::unique_ptr<CudaKernel>& kernel = kernels_[{device, function}];
  if (!kernel) {
    kernel = std::make_unique<CudaKernel>(cubin.cubin, function);
    // A graph that is recorded later may be the first to want it, and a capture does not allow loading.
    kernel->prepare(device);
  }
  return kernel.get();
}

Compilation<CompiledCubin> CudaModule::compiled(int device) {
  std::lock_guard lock(mutex_);
  Compilation<CompiledCubin>& found = cubins_[device];
  if (!found.valid())
    found = in_background([name = name_, text = text_, device] {
      const CudaDeviceProperties& p = cuda_device_properties(device);
      return compile_cuda({{name, text}}, p.major, p.minor)[0];
    });
  return found;
}

}  // namespace thunder
