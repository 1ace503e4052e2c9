#include "runtime/kernels/cuda_driver.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "core/error.h"
#include "runtime/kernels/content_hash.h"
#include "runtime/kernels/cuda_api.h"

namespace thunder {
namespace {

// Numbers of CUdevice_attribute.
enum DeviceAttribute {
  kSharedPerBlock = 8,
  kMultiprocessors = 16,
  kL2Bytes = 38,
  kThreadsPerMultiprocessor = 39,
  kMajor = 75,
  kMinor = 76,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kSharedPerBlockOptin = 97,
};
// Numbers of CUfunction_attribute.
enum FunctionAttribute { kMaxThreads = 0, kStaticShared = 1, kLocalBytes = 3, kRegisters = 4, kMaxDynamicShared = 8 };

CudaDeviceProperties read_properties(const CudaApi& api, int ordinal) {
  int device = 0;
  check_cuda(api.cuDeviceGet(&device, ordinal), "cuda", "looking for a device");
  auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    check_cuda(api.cuDeviceGetAttribute(&value, which, device), "cuda", "reading a device's properties");
    return value;
  };
  CudaDeviceProperties p;
  char name[256] = {};
  check_cuda(api.cuDeviceGetName(name, sizeof name - 1, device), "cuda", "reading a device's name");
  check_cuda(api.cuDeviceTotalMem_v2(&p.memory_bytes, device), "cuda", "reading a device's memory size");
  p.name = name;
  p.major = attribute(kMajor);
  p.minor = attribute(kMinor);
  p.multiprocessors = attribute(kMultiprocessors);
  p.max_threads_per_multiprocessor = attribute(kThreadsPerMultiprocessor);
  p.registers_per_multiprocessor = attribute(kRegistersPerMultiprocessor);
  p.shared_per_multiprocessor = static_cast<size_t>(attribute(kSharedPerMultiprocessor));
  p.shared_per_block = static_cast<size_t>(attribute(kSharedPerBlock));
  p.shared_per_block_optin = static_cast<size_t>(attribute(kSharedPerBlockOptin));
  p.l2_bytes = static_cast<size_t>(attribute(kL2Bytes));
  return p;
}

/// The module of a cubin in the current context, loaded once in the process.
void* module_of(const CudaApi& api, const std::string& cubin, int device, const std::string& kernel) {
  static std::mutex mutex;
  static auto* modules = new std::map<std::pair<std::string, int>, void*>;
  const std::pair<std::string, int> key(to_hex(sha256(cubin)), device);
  std::lock_guard lock(mutex);
  void*& module = (*modules)[key];
  if (!module) {
    void* loaded = nullptr;
    check_cuda(api.cuModuleLoadData(&loaded, cubin.data()), kernel, "loading the cubin");
    module = loaded;
  }
  return module;
}

}  // namespace

bool cuda_available(std::string* why_not) {
  if (!cuda_api(why_not)) return false;
  if (cuda_device_count() > 0) return true;
  if (why_not) *why_not = "the CUDA driver sees no device";
  return false;
}

int cuda_device_count() {
  const CudaApi* api = cuda_api(nullptr);
  int count = 0;
  return api && api->cuDeviceGetCount(&count) == 0 ? std::min(count, kMaxDevices) : 0;
}

int cuda_driver_version() {
  const CudaApi* api = cuda_api(nullptr);
  int version = 0;
  return api && api->cuDriverGetVersion(&version) == 0 ? version : 0;
}

const CudaDeviceProperties& cuda_device_properties(int device) {
  static std::mutex mutex;
  static auto* known = new std::map<int, CudaDeviceProperties>;
  const CudaApi& api = require_cuda();
  std::lock_guard lock(mutex);
  if (auto it = known->find(device); it != known->end()) return it->second;
  return known->emplace(device, read_properties(api, device)).first->second;
}

CudaKernel::CudaKernel(std::shared_ptr<const std::string> cubin, std::string name)
    : cubin_(std::move(cubin)), name_(std::move(name)) {
  THUNDER_ASSERT(cubin_ && !cubin_->empty(), "kernel ", name_, " without a cubin");
}

void* CudaKernel::function(int device) const {
  THUNDER_CHECK(device >= 0 && device < kMaxDevices, Runtime, name_, "no CUDA device ", device);
  void* known = functions_[device].load(std::memory_order_acquire);
  return known ? known : load(device);
}

void* CudaKernel::load(int device) const {
  const CudaApi& api = require_cuda();
  const CudaContextScope scope(device);
  void* module = module_of(api, *cubin_, device, name_);
  void* function = nullptr;
  check_cuda(api.cuModuleGetFunction(&function, module, name_.c_str()), name_, "looking for the kernel in its cubin");
  // The driver loads lazily; asking for an attribute makes it load the code now, outside of any capture.
  int registers = 0;
  check_cuda(api.cuFuncGetAttribute(&registers, kRegisters, function), name_, "loading the kernel");
  functions_[device].store(function, std::memory_order_release);
  return function;
}

CudaKernelAttributes CudaKernel::attributes(int device) const {
  void* f = function(device);
  const CudaApi& api = require_cuda();
  const CudaContextScope scope(device);
  auto attribute = [&](FunctionAttribute which) {
    int value = 0;
    check_cuda(api.cuFuncGetAttribute(&value, which, f), name_, "reading the kernel's attributes");
    return value;
  };
  CudaKernelAttributes a;
  a.registers = attribute(kRegisters);
  a.max_threads = attribute(kMaxThreads);
  a.static_shared = static_cast<size_t>(attribute(kStaticShared));
  a.local_bytes = static_cast<size_t>(attribute(kLocalBytes));
  return a;
}

void CudaKernel::reserve_shared(int device, size_t bytes) const {
  void* f = function(device);
  const CudaContextScope scope(device);
  check_cuda(require_cuda().cuFuncSetAttribute(f, kMaxDynamicShared, static_cast<int>(bytes)), name_,
             "asking for shared memory");
}

int CudaKernel::blocks_per_multiprocessor(int device, int threads, size_t shared_bytes) const {
  void* f = function(device);
  const CudaContextScope scope(device);
  int blocks = 0;
  check_cuda(require_cuda().cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, threads, shared_bytes), name_,
             "computing the occupancy");
  return blocks;
}

void CudaKernel::launch(int device, CudaDim grid, CudaDim block, size_t shared_bytes, void* stream,
                        void** params) const {
  void* f = function(device);
  const CudaContextScope scope(device);
  const int status = require_cuda().cuLaunchKernel(f, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                                   static_cast<unsigned>(shared_bytes), stream, params, nullptr);
  if (status != 0) check_cuda(status, name_, "launching the kernel");
}

CudaTimer::CudaTimer(int device, void* stream) : device_(device), stream_(stream) {
  const CudaContextScope scope(device);
  for (void*& e : events_) check_cuda(require_cuda().cuEventCreate(&e, 0), "cuda", "making an event");
}

CudaTimer::~CudaTimer() {
  const CudaContextScope scope(device_);
  for (void* e : events_) require_cuda().cuEventDestroy_v2(e);
}

void CudaTimer::start() {
  const CudaContextScope scope(device_);
  check_cuda(require_cuda().cuEventRecord(events_[0], stream_), "cuda", "recording an event");
}

float CudaTimer::stop() {
  const CudaContextScope scope(device_);
  const CudaApi& api = require_cuda();
  float milliseconds = 0;
  check_cuda(api.cuEventRecord(events_[1], stream_), "cuda", "recording an event");
  check_cuda(api.cuEventSynchronize(events_[1]), "cuda", "waiting for an event");
  check_cuda(api.cuEventElapsedTime(&milliseconds, events_[0], events_[1]), "cuda", "reading the time between events");
  return milliseconds;
}

CudaStopwatch::CudaStopwatch(int device, void* stream) : device_(device), stream_(stream) {
  const CudaContextScope scope(device);
  for (void*& e : events_) check_cuda(require_cuda().cuEventCreate(&e, 0), "cuda", "making an event");
  record(0);
}

CudaStopwatch::~CudaStopwatch() {
  const CudaContextScope scope(device_);
  for (void* e : events_) require_cuda().cuEventDestroy_v2(e);
}

void CudaStopwatch::record(size_t which) {
  check_cuda(require_cuda().cuEventRecord(events_[which], stream_), "cuda", "recording an event");
}

void CudaStopwatch::stop() {
  const CudaContextScope scope(device_);
  record(1);
}

bool CudaStopwatch::passed(size_t which) const {
  constexpr int kNotReady = 600;  // CUDA_ERROR_NOT_READY
  const CudaContextScope scope(device_);
  const RelaxedCaptureScope relaxed;
  const int status = require_cuda().cuEventQuery(events_[which]);
  if (status != kNotReady) check_cuda(status, "cuda", "asking for an event");
  return status == 0;
}

float CudaStopwatch::milliseconds() const {
  const CudaContextScope scope(device_);
  float milliseconds = 0;
  check_cuda(require_cuda().cuEventElapsedTime(&milliseconds, events_[0], events_[1]), "cuda",
             "reading the time between events");
  return milliseconds;
}

bool cuda_is_capturing(int device, void* stream) {
  const CudaContextScope scope(device);
  int status = 0;
  check_cuda(require_cuda().cuStreamIsCapturing(stream, &status), "cuda", "asking whether a stream is captured");
  return status != 0;
}

}  // namespace thunder
