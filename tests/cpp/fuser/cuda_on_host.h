// CUDA text that runs on the host: the threads of a block take turns at each __syncthreads().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/kernels/host_compiler.h"

namespace thunder::test {

class CudaOnHost {
 public:
  /// Kernels without the CUDA prelude, in whose place the host's stands.
  explicit CudaOnHost(const std::string& kernels);
  /// The kernel as a function; call it in launch().
  template <class F>
  F* kernel(const std::string& name) const {
    return reinterpret_cast<F*>(module_->symbol(name));
  }
  struct Grid {
    unsigned x = 1, y = 1;
  };
  /// Calls `thread` for each thread of each block.
  void launch(Grid grid, unsigned threads, const std::function<void()>& thread);
  /// Whether a kernel trapped, or a vector was not aligned.
  bool trapped() const { return *trapped_ != 0; }
  bool misaligned() const { return *misaligned_ != 0; }

 private:
  struct Dim {
    unsigned x, y, z;
  };
  std::shared_ptr<HostModule> module_;
  Dim *thread_, *block_, *grid_, *size_;
  int *trapped_, *misaligned_;
};

}  // namespace thunder::test
