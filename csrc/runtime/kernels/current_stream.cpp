#include "runtime/kernels/current_stream.h"

#include <dlfcn.h>

#include <cstdint>

#include "core/error.h"

namespace thunder {
namespace {

// Of PyTorch's stable C interface (torch/csrc/inductor/aoti_torch/c/shim.h): 0 is success.
using GetStream = int32_t(int32_t device, void** stream);

GetStream* get_stream() {
  // By the library's handle and not from the global scope: Python loads extensions, and so PyTorch, with RTLD_LOCAL.
  static auto* function = [] {
    void* handle = ::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    return handle ? reinterpret_cast<GetStream*>(::dlsym(handle, "aoti_torch_get_current_cuda_stream")) : nullptr;
  }();
  return function;
}

}  // namespace

void* current_cuda_stream(int device) {
  GetStream* get = get_stream();
  THUNDER_CHECK(get, Runtime, "cuda", "the PyTorch in this process has no CUDA (libtorch_cuda.so is not loaded)");
  void* stream = nullptr;
  const int32_t status = get(device, &stream);
  THUNDER_CHECK(status == 0, Runtime, "cuda", "PyTorch has no current stream for device ", device);
  return stream;
}

}  // namespace thunder
