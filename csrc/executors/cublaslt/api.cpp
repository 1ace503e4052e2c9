#include "executors/cublaslt/api.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <mutex>

#include "core/error.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/shared_library.h"

namespace thunder::cublaslt {
namespace {

constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

bool resolve_all(void* library, Api& api) {
  bool complete = true;
  auto resolve = [&]<class F>(const char* name, F*& function) {
    function = reinterpret_cast<F*>(::dlsym(library, name));
    complete = complete && function;
  };
  resolve("cublasLtCreate", api.create);
  resolve("cublasLtGetVersion", api.version);
  resolve("cublasLtGetStatusString", api.status_string);
  resolve("cublasLtMatmulDescCreate", api.desc_create);
  resolve("cublasLtMatmulDescSetAttribute", api.desc_set);
  resolve("cublasLtMatmulDescDestroy", api.desc_destroy);
  resolve("cublasLtMatrixLayoutCreate", api.layout_create);
  resolve("cublasLtMatrixLayoutDestroy", api.layout_destroy);
  resolve("cublasLtMatmulPreferenceCreate", api.preference_create);
  resolve("cublasLtMatmulPreferenceSetAttribute", api.preference_set);
  resolve("cublasLtMatmulPreferenceDestroy", api.preference_destroy);
  resolve("cublasLtMatmulAlgoGetHeuristic", api.heuristics);
  resolve("cublasLtMatmulAlgoCheck", api.check);
  resolve("cublasLtMatmul", api.matmul);
  return complete;
}

const Api* load() {
  for (const char* name : kNames) {
    const std::string file = loaded_library(name);
    void* library = file.empty() ? nullptr : ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    static Api api;
    if (library && resolve_all(library, api)) return &api;
  }
  return nullptr;
}

}  // namespace

const Api* api() {
  static std::atomic<const Api*> loaded{nullptr};
  if (const Api* known = loaded.load(std::memory_order_acquire)) return known;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (!loaded) loaded = load();
  return loaded;
}

Handle handle(const Api& api, int device) {
  static std::mutex mutex;
  static std::array<Handle, kMaxDevices> handles{};
  THUNDER_CHECK(device >= 0 && device < kMaxDevices, Runtime, "cublaslt", "no CUDA device ", device);
  std::lock_guard lock(mutex);
  Handle& h = handles[static_cast<size_t>(device)];
  if (h) return h;
  const int status = api.create(&h);
  THUNDER_CHECK(status == 0, Runtime, "cublaslt", "cublasLtCreate: ", api.status_string(status));
  return h;
}

}  // namespace thunder::cublaslt
