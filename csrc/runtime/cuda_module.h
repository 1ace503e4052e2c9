// CUDA functions that an executor writes by hand: one text, compiled by NVRTC in the background, a module a device.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/background.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/nvrtc.h"

namespace thunder {

class CudaModule {
 public:
  /// The module of this text, one for all who ask for it. Begins to compile it for the first device, if there is one.
  /// `name` is that of the source in NVRTC's messages.
  static std::shared_ptr<CudaModule> of(const std::string& name, const std::string& text);

  CudaModule(std::string name, std::string text);
  ~CudaModule();
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  /// A function of the text, loaded; null, and `why`, if there is no device or it cannot be compiled.
  const CudaKernel* find(const std::string& function, int device, std::string* why);

 private:
  Compilation<CompiledCubin> compiled(int device);

  const std::string name_, text_;
  std::mutex mutex_;
  std::map<int, Compilation<CompiledCubin>> cubins_;
  std::map<std::pair<int, std::string>, std::unique_ptr<CudaKernel>> kernels_;
};

}  // namespace thunder
