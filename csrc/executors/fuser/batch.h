// The kernels of one program, compiled together.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fuser/emit.h"
#include "runtime/background.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/host_compiler.h"

namespace thunder {

/// Kernels for the host are a few translation units, those for CUDA a few programs; they are compiled side by side.
/// Kernels of the same text are compiled once.  Compilation starts with start(), in threads of its own; who needs a
/// kernel first waits for its unit, or its program.
class KernelBatch {
 public:
  KernelBatch() = default;
  ~KernelBatch();
  KernelBatch(const KernelBatch&) = delete;
  KernelBatch& operator=(const KernelBatch&) = delete;

  /// The name under which the kernel is found: its own, or that of an equal one before it.
  std::string add_host(const fuser::Kernel& kernel, const std::string& name);
  std::string add_cuda(const fuser::Kernel& kernel, const std::string& name);
  /// `order`: names as the program runs them; those for CUDA are compiled in this order.
  void start(const std::vector<std::string>& order);

  /// Null, and `why`, if the compilation failed.
  void* host_function(const std::string& name, std::string* why);
  std::shared_ptr<CudaKernel> cuda_kernel(const std::string& name, int device, std::string* why);
  /// The kernel's own text, without what all kernels share.
  std::string text(const std::string& name) const;

 private:
  struct CudaResult {
    std::shared_ptr<const std::string> cubin;
    std::string log;
  };
  using CudaResults = std::map<std::string, CudaResult>;  // by the kernel's name
  std::string add(std::map<std::string, std::string>& names, const std::string& anonymous, const std::string& name);
  using CudaPrograms = std::map<std::string, Compilation<CudaResults>>;  // by the kernel's name
  CudaPrograms compile_programs(int device) const;
  CudaResults compile_program(const std::vector<size_t>& kernels, int device) const;

  std::map<std::string, std::string> host_names_, cuda_names_;  // from text without a name to the name
  std::vector<std::string> host_, cuda_;                        // the kernels' names
  std::map<std::string, std::string> texts_;
  std::mutex mutex_;
  struct HostResult {
    std::shared_ptr<HostModule> module;
    std::string error;
  };
  std::map<std::string, Compilation<HostResult>> host_results_;  // by the kernel's name
  std::map<int, CudaPrograms> cuda_programs_;
};

}  // namespace thunder
