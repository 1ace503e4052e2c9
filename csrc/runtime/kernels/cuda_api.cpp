#include "runtime/kernels/cuda_api.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <mutex>

#include "core/error.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/shared_library.h"

namespace thunder {
namespace {

std::string described(const CudaApi& api, int error) {
  const char* name = nullptr;
  const char* text = nullptr;
  api.cuGetErrorName(error, &name);
  api.cuGetErrorString(error, &text);
  return cat(name ? name : cat("error ", error), ": ", text ? text : "no description");
}

/// Empty, or the name of a function that the driver does not have.
std::string resolve_all(void* handle, CudaApi& api) {
  Functions functions{handle, ""};
  functions.find("cuInit", api.cuInit);
  functions.find("cuDriverGetVersion", api.cuDriverGetVersion);
  functions.find("cuGetErrorName", api.cuGetErrorName);
  functions.find("cuGetErrorString", api.cuGetErrorString);
  functions.find("cuDeviceGetCount", api.cuDeviceGetCount);
  functions.find("cuDeviceGet", api.cuDeviceGet);
  functions.find("cuDeviceGetName", api.cuDeviceGetName);
  functions.find("cuDeviceGetAttribute", api.cuDeviceGetAttribute);
  functions.find("cuDeviceTotalMem_v2", api.cuDeviceTotalMem_v2);
  functions.find("cuDevicePrimaryCtxRetain", api.cuDevicePrimaryCtxRetain);
  functions.find("cuCtxGetCurrent", api.cuCtxGetCurrent);
  functions.find("cuCtxSetCurrent", api.cuCtxSetCurrent);
  functions.find("cuModuleLoadData", api.cuModuleLoadData);
  functions.find("cuModuleGetFunction", api.cuModuleGetFunction);
  functions.find("cuFuncGetAttribute", api.cuFuncGetAttribute);
  functions.find("cuFuncSetAttribute", api.cuFuncSetAttribute);
  functions.find("cuOccupancyMaxActiveBlocksPerMultiprocessor", api.cuOccupancyMaxActiveBlocksPerMultiprocessor);
  functions.find("cuLaunchKernel", api.cuLaunchKernel);
  functions.find("cuEventCreate", api.cuEventCreate);
  functions.find("cuEventRecord", api.cuEventRecord);
  functions.find("cuEventSynchronize", api.cuEventSynchronize);
  functions.find("cuEventQuery", api.cuEventQuery);
  functions.find("cuEventElapsedTime", api.cuEventElapsedTime);
  functions.find("cuEventDestroy_v2", api.cuEventDestroy_v2);
  functions.find("cuStreamIsCapturing", api.cuStreamIsCapturing);
  functions.find("cuThreadExchangeStreamCaptureMode", api.cuThreadExchangeStreamCaptureMode);
  return functions.missing;
}

/// Null if there is no driver to use, and `why_not` says why.
const CudaApi* load_driver(std::string* why_not) {
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = ::dlerror();
    *why_not = cat("no CUDA driver: ", reason ? reason : "libcuda.so.1 cannot be loaded");
    return nullptr;
  }
  static CudaApi api;
  if (const std::string missing = resolve_all(handle, api); !missing.empty()) {
    *why_not = cat("the CUDA driver is too old: it has no function ", missing);
    return nullptr;
  }
  if (const int status = api.cuInit(0); status != 0) {
    *why_not = cat("the CUDA driver does not start: ", described(api, status));
    return nullptr;
  }
  return &api;
}

void* primary_context(const CudaApi& api, int device) {
  static std::array<std::atomic<void*>, kMaxDevices> contexts{};
  THUNDER_CHECK(device >= 0 && device < kMaxDevices, Runtime, "cuda", "no device ", device, ", expected 0 to ",
                cuda_device_count() - 1);
  if (void* context = contexts[device].load(std::memory_order_acquire)) return context;
  int handle = 0;
  void* context = nullptr;
  check_cuda(api.cuDeviceGet(&handle, device), "cuda", "looking for a device");
  // Never released: the context must outlive all that is loaded in it.  Two threads here get the same one.
  check_cuda(api.cuDevicePrimaryCtxRetain(&context, handle), "cuda", "taking the primary context");
  contexts[device].store(context, std::memory_order_release);
  return context;
}

}  // namespace

const CudaApi* cuda_api(std::string* why_not) {
  // Only success is remembered, with one load for each launch; what fails may be asked again.
  static std::atomic<const CudaApi*> loaded{nullptr};
  if (const CudaApi* api = loaded.load(std::memory_order_acquire)) return api;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::string ignored;
  if (!loaded) loaded = load_driver(why_not ? why_not : &ignored);
  return loaded;
}

const CudaApi& require_cuda() {
  std::string why_not;
  const CudaApi* api = cuda_api(&why_not);
  THUNDER_CHECK(api, Runtime, "cuda", why_not);
  return *api;
}

void check_cuda(int status, const std::string& who, const char* doing) {
  if (status == 0) return;
  const CudaApi& api = require_cuda();
  int version = 0;
  api.cuDriverGetVersion(&version);
  throw Error(ErrorKind::Runtime, cat("[", who, "] ", described(api, status), ", while ", doing, " (driver for CUDA ",
                                      version / 1000, ".", version % 1000 / 10, ")"));
}

CudaContextScope::CudaContextScope(int device) {
  const CudaApi& api = require_cuda();
  void* wanted = primary_context(api, device);
  check_cuda(api.cuCtxGetCurrent(&before_), "cuda", "asking for the current context");
  if (before_ == wanted) return;
  check_cuda(api.cuCtxSetCurrent(wanted), "cuda", "making the primary context current");
  changed_ = true;
}

CudaContextScope::~CudaContextScope() {
  if (changed_) require_cuda().cuCtxSetCurrent(before_);
}

RelaxedCaptureScope::RelaxedCaptureScope() : mode_(2) {  // CU_STREAM_CAPTURE_MODE_RELAXED
  check_cuda(require_cuda().cuThreadExchangeStreamCaptureMode(&mode_), "cuda", "changing the capture mode");
}

RelaxedCaptureScope::~RelaxedCaptureScope() { require_cuda().cuThreadExchangeStreamCaptureMode(&mode_); }

}  // namespace thunder
