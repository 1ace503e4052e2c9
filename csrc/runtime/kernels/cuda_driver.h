// Kernels on NVIDIA GPUs through the driver API, loaded with dlopen: one build serves machines with and without CUDA.
//
// Everything works in the primary contexts, which PyTorch uses too, so pointers and streams are PyTorch's own.  Each
// call takes the device as an argument, makes its primary context current for its own length if another one (or none)
// is, as in a thread that has not touched CUDA yet, and puts back what was current: PyTorch's current device never
// changes here.  A caller that allocates outputs with ATen needs its own device guard for those.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace thunder {

/// Whether there are a driver and a device; if not, `why_not` says what is missing.  This and all that follows
/// initialises CUDA, after which a forked child cannot use it: not to be called before the program itself uses a CUDA
/// tensor.
bool cuda_available(std::string* why_not = nullptr);
/// At most kMaxDevices.
int cuda_device_count();
inline constexpr int kMaxDevices = 64;
/// 13000 for 13.0: the newest CUDA that the driver knows; 0 without one.
int cuda_driver_version();

struct CudaDeviceProperties {
  std::string name;
  int major = 0, minor = 0;
  int multiprocessors = 0;
  int max_threads_per_multiprocessor = 0;
  int registers_per_multiprocessor = 0;
  size_t shared_per_multiprocessor = 0;
  size_t shared_per_block = 0;        // without a request
  size_t shared_per_block_optin = 0;  // with CudaKernel::reserve_shared()
  size_t l2_bytes = 0;
  size_t memory_bytes = 0;
};
/// Read once a device.
const CudaDeviceProperties& cuda_device_properties(int device);

struct CudaDim {
  unsigned x = 1, y = 1, z = 1;
};

struct CudaKernelAttributes {
  int registers = 0;         // of a thread
  int max_threads = 0;       // in a block, with these registers
  size_t static_shared = 0;  // bytes
  size_t local_bytes = 0;    // of a thread; not 0: registers were spilled
};

/// One function of a cubin.  The cubin is loaded on a device by the first call that names the device, once for all
/// kernels with the same bytes, and stays loaded: a captured CUDA graph may hold its functions longer than anybody
/// here.  Errors of the driver are exceptions (ErrorKind::Runtime) with the driver's name for the error and its
/// description.
class CudaKernel {
 public:
  /// Nothing is loaded yet.
  CudaKernel(std::shared_ptr<const std::string> cubin, std::string name);
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  const std::string& name() const { return name_; }
  /// Loads on `device`.  Worth calling at build time: a load in the middle of a CUDA graph's capture is an error.
  void prepare(int device) const { (void)function(device); }
  CudaKernelAttributes attributes(int device) const;
  /// Allows launches with up to `bytes` of dynamic shared memory; needed above 48 KB.
  void reserve_shared(int device, size_t bytes) const;
  /// Blocks of `threads` threads that one multiprocessor holds at a time.
  int blocks_per_multiprocessor(int device, int threads, size_t shared_bytes) const;
  /// `params` point at the arguments' values, as for cuLaunchKernel.  Asynchronous; may be called from several threads.
  void launch(int device, CudaDim grid, CudaDim block, size_t shared_bytes, void* stream, void** params) const;

 private:
  void* function(int device) const;
  void* load(int device) const;

  std::shared_ptr<const std::string> cubin_;
  std::string name_;
  mutable std::array<std::atomic<void*>, kMaxDevices> functions_{};
};

/// How long work takes on a stream.  Waits for it, so only where waiting is allowed: see cuda_is_capturing().
class CudaTimer {
 public:
  CudaTimer(int device, void* stream);
  ~CudaTimer();
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;
  void start();
  /// Since start(), in milliseconds.
  float stop();

 private:
  int device_;
  void* stream_;
  std::array<void*, 2> events_{};
};

/// When the device came to the start and to the end of work on a stream.  Waits for nothing.
class CudaStopwatch {
 public:
  /// The start.
  CudaStopwatch(int device, void* stream);
  ~CudaStopwatch();
  CudaStopwatch(const CudaStopwatch&) = delete;
  CudaStopwatch& operator=(const CudaStopwatch&) = delete;
  void stop();
  bool has_begun() const { return passed(0); }
  bool has_ended() const { return passed(1); }
  /// Between start and end, once the end is there.
  float milliseconds() const;

 private:
  void record(size_t which);
  bool passed(size_t which) const;

  int device_;
  void* stream_;
  std::array<void*, 2> events_{};
};

/// Whether what is launched on the stream goes into a CUDA graph instead of running.
bool cuda_is_capturing(int device, void* stream);

}  // namespace thunder
