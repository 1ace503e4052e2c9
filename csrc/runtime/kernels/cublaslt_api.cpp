#include "runtime/kernels/cublaslt_api.h"

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
  Functions functions{library, ""};
  functions.find("cublasLtCreate", api.create);
  functions.find("cublasLtGetVersion", api.version);
  functions.find("cublasLtGetStatusString", api.status_string);
  functions.find("cublasLtMatmulDescCreate", api.desc_create);
  functions.find("cublasLtMatmulDescSetAttribute", api.desc_set);
  functions.find("cublasLtMatmulDescDestroy", api.desc_destroy);
  functions.find("cublasLtMatrixLayoutCreate", api.layout_create);
  functions.find("cublasLtMatrixLayoutDestroy", api.layout_destroy);
  functions.find("cublasLtMatmulPreferenceCreate", api.preference_create);
  functions.find("cublasLtMatmulPreferenceSetAttribute", api.preference_set);
  functions.find("cublasLtMatmulPreferenceDestroy", api.preference_destroy);
  functions.find("cublasLtMatmulAlgoGetHeuristic", api.heuristics);
  functions.find("cublasLtMatmulAlgoCheck", api.check);
  functions.find("cublasLtMatmul", api.matmul);
  return functions.missing.empty();
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
