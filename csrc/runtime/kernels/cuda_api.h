// The functions of the CUDA driver that we call, declared by hand and found with dlsym.
#pragma once

#include <cstddef>
#include <string>

namespace thunder {

/// The names with _v2 are those that cuda.h maps the plain ones to.
struct CudaApi {
  int (*cuInit)(unsigned flags);
  int (*cuDriverGetVersion)(int* version);
  int (*cuGetErrorName)(int error, const char** name);
  int (*cuGetErrorString)(int error, const char** text);
  int (*cuDeviceGetCount)(int* count);
  int (*cuDeviceGet)(int* device, int ordinal);
  int (*cuDeviceGetName)(char* name, int length, int device);
  int (*cuDeviceGetAttribute)(int* value, int attribute, int device);
  int (*cuDeviceTotalMem_v2)(size_t* bytes, int device);
  int (*cuDevicePrimaryCtxRetain)(void** context, int device);
  int (*cuCtxGetCurrent)(void** context);
  int (*cuCtxSetCurrent)(void* context);
  int (*cuModuleLoadData)(void** module, const void* image);
  int (*cuModuleGetFunction)(void** function, void* module, const char* name);
  int (*cuFuncGetAttribute)(int* value, int attribute, void* function);
  int (*cuFuncSetAttribute)(void* function, int attribute, int value);
  int (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int* blocks, void* function, int threads, size_t dynamic_shared);
  int (*cuLaunchKernel)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned dynamic_shared, void* stream, void** params,
                        void** extra);
  int (*cuEventCreate)(void** event, unsigned flags);
  int (*cuEventRecord)(void* event, void* stream);
  int (*cuEventSynchronize)(void* event);
  int (*cuEventQuery)(void* event);
  int (*cuEventElapsedTime)(float* milliseconds, void* start, void* end);
  int (*cuEventDestroy_v2)(void* event);
  int (*cuStreamIsCapturing)(void* stream, int* status);
  int (*cuThreadExchangeStreamCaptureMode)(int* mode);
};

/// The driver, initialised; null without one, and `why_not` says why.
const CudaApi* cuda_api(std::string* why_not);
/// The driver; Error (Runtime) without one.
const CudaApi& require_cuda();

/// Error (Runtime) unless `status` is 0: "[fusion3] CUDA_ERROR_X: its description, while <doing>".
void check_cuda(int status, const std::string& who, const char* doing);

/// The device's primary context, which PyTorch and the CUDA runtime use, is current for the length of a scope.
class CudaContextScope {
 public:
  explicit CudaContextScope(int device);
  ~CudaContextScope();
  CudaContextScope(const CudaContextScope&) = delete;
  CudaContextScope& operator=(const CudaContextScope&) = delete;

 private:
  void* before_ = nullptr;
  bool changed_ = false;
};

/// Within it this thread may do what other threads' captures of CUDA graphs forbid by default: ask for events.
class RelaxedCaptureScope {
 public:
  RelaxedCaptureScope();
  ~RelaxedCaptureScope();
  RelaxedCaptureScope(const RelaxedCaptureScope&) = delete;
  RelaxedCaptureScope& operator=(const RelaxedCaptureScope&) = delete;

 private:
  int mode_;
};

}  // namespace thunder
