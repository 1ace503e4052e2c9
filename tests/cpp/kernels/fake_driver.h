// A CUDA driver of our own making, which keeps a record of what it was asked: contexts, loads, the order of the
// arguments and errors can be seen without a GPU.
#pragma once

#include <doctest.h>

#include <memory>
#include <string>

#include "kernels/scratch.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/host_compiler.h"

namespace kernel_test {

inline const std::string kFakeDriver = R"(
extern "C" {
void* current = nullptr;        // the thread's context
void* launched_in = nullptr;
int loads = 0, launches = 0, next_error = 0, largest_shared = 0;
unsigned launch[7];
void* launch_stream = nullptr;
void** launch_params = nullptr;
static char contexts[2];

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* v) { *v = 12080; return 0; }
int cuGetErrorName(int e, const char** s) { *s = e == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : 0; return e == 2 ? 0 : 1; }
int cuGetErrorString(int e, const char** s) { *s = e == 2 ? "out of memory" : 0; return e == 2 ? 0 : 1; }
int cuDeviceGetCount(int* n) { *n = 2; return 0; }
int cuDeviceGet(int* d, int i) { *d = i; return i < 2 ? 0 : 101; }
int cuDeviceGetName(char* s, int, int) { s[0] = 'F'; s[1] = 0; return 0; }
int cuDeviceGetAttribute(int* v, int which, int) { *v = which; return 0; }
int cuDeviceTotalMem_v2(unsigned long* n, int) { *n = 1ul << 40; return 0; }
int cuDevicePrimaryCtxRetain(void** c, int d) { *c = contexts + d; return 0; }
int cuCtxGetCurrent(void** c) { *c = current; return 0; }
int cuCtxSetCurrent(void* c) { current = c; return 0; }
int cuModuleLoadData(void** m, const void*) { if (next_error) return next_error; ++loads; *m = current; return 0; }
int cuModuleGetFunction(void** f, void* m, const char*) { *f = m; return 0; }
int cuFuncGetAttribute(int* v, int which, void*) { *v = 10 + which; return 0; }
int cuFuncSetAttribute(void*, int which, int v) { if (which != 8) return 1; largest_shared = v; return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void*, int threads, unsigned long shared) {
  *n = threads + (int)shared;
  return 0;
}
int cuLaunchKernel(void*, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** params, void**) {
  if (next_error) return next_error;
  const unsigned all[] = {gx, gy, gz, bx, by, bz, shared};
  for (int i = 0; i < 7; ++i) launch[i] = all[i];
  launch_stream = stream, launch_params = params, launched_in = current, ++launches;
  return 0;
}
// Of a clock that stands still unless somebody sets it forward.
float now = 0, recorded[64];
int events = 0, live_events = 0, capturing = 0, capture_mode = 0;
int cuEventCreate(void** e, unsigned) { *e = recorded + events++ % 64; ++live_events; return 0; }
int cuEventRecord(void* e, void* stream) { launch_stream = stream; *(float*)e = now; return 0; }
int cuEventSynchronize(void*) { return 0; }
int cuEventQuery(void*) { return 0; }
int cuThreadExchangeStreamCaptureMode(int* mode) { const int last = capture_mode; capture_mode = *mode, *mode = last; return 0; }
int cuEventElapsedTime(float* ms, void* a, void* b) { *ms = *(float*)b - *(float*)a; return 0; }
int cuEventDestroy_v2(void*) { --live_events; return 0; }
int cuStreamIsCapturing(void*, int* status) { *status = capturing; return 0; }
// Streams that do at once what they are told.
int streams = 0, ordered = 0, copies = 0, batches = 0, awaited = 0, untimely = 0;
int cuStreamCreateWithPriority(void** s, unsigned, int) { *s = contexts + ++streams; return 0; }
int cuStreamWaitEvent(void*, void*, unsigned) { ++ordered; return 0; }
int cuMemcpyAsync(unsigned long long to, unsigned long long from, unsigned long bytes, void*) {
  __builtin_memcpy((void*)to, (const void*)from, bytes);
  ++copies;
  return 0;
}
int cuMemcpyBatchAsync_v2(unsigned long long* to, unsigned long long* from, unsigned long* bytes, unsigned long count,
                          void*, unsigned long*, unsigned long, void* stream) {
  while (count-- > 0) cuMemcpyAsync(to[count], from[count], bytes[count], stream);
  ++batches;
  return 0;
}
struct MemoryOperation { int what; unsigned* at; unsigned value, rest[7]; };
int cuStreamBatchMemOp_v2(void*, unsigned count, MemoryOperation* o, unsigned) {
  for (; count > 0; --count, ++o) {
    if (o->what == 2) *o->at = o->value;
    else ++awaited, untimely += (int)(*o->at - o->value) < 0;
  }
  return 0;
}
})";

/// A library that stands for another: the loader finds it by this name, because one of this name is in the process
/// already.
struct FakeLibrary {
  std::shared_ptr<thunder::HostModule> module;
  FakeLibrary(const std::string& source, const std::string& name) {
    std::string error;
    module = thunder::compile_host(source, &error, {"-Wl,-soname," + name});
  }
  template <class T>
  T& variable(const char* name) const {
    return *static_cast<T*>(module->symbol(name));
  }
};
struct FakeDriver : FakeLibrary {
  FakeDriver() : FakeLibrary(kFakeDriver, "libcuda.so.1") {}
};

/// Runs `body` in a child whose driver is the fake one; the number of the first condition that does not hold, 0 if all
/// do.
template <class Body>
int with_fake_driver(Body body) {
  const OwnCache own;
  return in_child([&] {
    const FakeDriver driver;
    return driver.module ? body(driver) : 50;
  });
}

inline bool can_fake() {
  std::string why_not;
  if (thunder::cuda_available()) why_not = "this machine has a driver, which the other tests use";
  else thunder::host_compiler_command(&why_not);
  if (!why_not.empty()) MESSAGE("skipped: " << why_not);
  return why_not.empty();
}

}  // namespace kernel_test
