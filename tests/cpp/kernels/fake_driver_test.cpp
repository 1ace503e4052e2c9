// The driver's callers against a driver of our own making, which keeps a record of what it was asked: contexts, loads,
// the order of the arguments and errors can be seen without a GPU.
#include <doctest.h>

#include "core/error.h"
#include "kernels/scratch.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/host_compiler.h"

using namespace thunder;
using namespace kernel_test;

namespace {

const std::string kFakeDriver = R"(
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
})";

struct FakeDriver {
  std::shared_ptr<HostModule> module;
  /// The loader finds it by this name, because a library of this name is in the process already.
  FakeDriver() {
    std::string error;
    module = compile_host(kFakeDriver, &error, {"-Wl,-soname,libcuda.so.1"});
  }
  template <class T>
  T& variable(const char* name) const {
    return *static_cast<T*>(module->symbol(name));
  }
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

bool can_fake() {
  std::string why_not;
  if (cuda_available())
    why_not = "this machine has a driver, which the other tests use";
  else
    host_compiler_command(&why_not);
  if (!why_not.empty()) MESSAGE("skipped: " << why_not);
  return why_not.empty();
}

std::shared_ptr<const std::string> bytes(const char* text) { return std::make_shared<const std::string>(text); }

}  // namespace

TEST_CASE("fake CUDA driver: a launch hands on its arguments and gives the context back") {
  if (!can_fake()) return;
  const int status = with_fake_driver([](const FakeDriver& driver) {
    if (!cuda_available() || cuda_device_count() != 2 || cuda_driver_version() != 12080) return 1;
    const CudaKernel kernel(bytes("cubin"), "k");
    char other = 0, stream = 0;
    driver.variable<void*>("current") = &other;
    void* params[] = {&other};
    kernel.launch(1, {2, 3, 4}, {5, 6, 7}, 8, &stream, params);
    for (unsigned i = 0; i < 7; ++i)
      if (driver.variable<unsigned[7]>("launch")[i] != i + 2) return 2;
    if (driver.variable<void*>("launch_stream") != &stream || driver.variable<void**>("launch_params") != params)
      return 3;
    if (driver.variable<void*>("current") != &other || driver.variable<void*>("launched_in") == &other) return 4;
    const void* context_of_1 = driver.variable<void*>("launched_in");
    kernel.launch(0, {}, {}, 0, nullptr, params);
    if (driver.variable<void*>("launched_in") == context_of_1) return 5;
    return driver.variable<int>("launches") == 2 && driver.variable<int>("loads") == 2 ? 0 : 6;
  });
  CHECK(status == 0);
}

TEST_CASE("fake CUDA driver: equal cubins load once a device, and again after a failure") {
  if (!can_fake()) return;
  const int status = with_fake_driver([](const FakeDriver& driver) {
    const CudaKernel a(bytes("cubin"), "a"), b(bytes("cubin"), "b"), other(bytes("another"), "a");
    driver.variable<int>("next_error") = 2;
    try {
      a.prepare(0);
      return 1;
    } catch (const Error& e) {
      const std::string expected =
          "[a] CUDA_ERROR_OUT_OF_MEMORY: out of memory, while loading the cubin (driver for CUDA 12.8)";
      if (e.what() != expected || e.kind() != ErrorKind::Runtime) return 2;
    }
    if (driver.variable<void*>("current") != nullptr) return 3;
    driver.variable<int>("next_error") = 0;
    for (const CudaKernel* kernel : {&a, &b, &other, &a}) kernel->prepare(0);
    if (driver.variable<int>("loads") != 2) return 4;
    driver.variable<int>("next_error") = 7;
    try {
      a.launch(0, {}, {}, 0, nullptr, nullptr);
      return 5;
    } catch (const Error& e) {
      const std::string expected = "[a] error 7: no description, while launching the kernel (driver for CUDA 12.8)";
      return e.what() == expected ? 0 : 6;
    }
  });
  CHECK(status == 0);
}

TEST_CASE("fake CUDA driver: the numbers of the attributes") {
  if (!can_fake()) return;
  const int status = with_fake_driver([](const FakeDriver& driver) {
    // The fake answers with the attribute's own number in cuda.h, for functions 10 more.
    const CudaDeviceProperties& p = cuda_device_properties(1);
    if (p.name != "F" || p.memory_bytes != size_t(1) << 40 || p.multiprocessors != 16 || p.l2_bytes != 38) return 1;
    if (p.major != 75 || p.minor != 76 || p.max_threads_per_multiprocessor != 39) return 2;
    if (p.shared_per_block != 8 || p.shared_per_block_optin != 97 || p.shared_per_multiprocessor != 81) return 3;
    if (p.registers_per_multiprocessor != 82) return 4;
    const CudaKernel kernel(bytes("cubin"), "k");
    const CudaKernelAttributes a = kernel.attributes(0);
    if (a.max_threads != 10 || a.static_shared != 11 || a.local_bytes != 13 || a.registers != 14) return 5;
    kernel.reserve_shared(0, 200000);
    if (driver.variable<int>("largest_shared") != 200000) return 6;
    return kernel.blocks_per_multiprocessor(0, 256, 1024) == 1280 ? 0 : 7;
  });
  CHECK(status == 0);
}

TEST_CASE("fake CUDA driver: one that lacks a function is too old") {
  if (!can_fake()) return;
  const OwnCache own;
  const int status = in_child([] {
    std::string error;
    const auto module =
        compile_host("extern \"C\" int cuInit(unsigned) { return 0; }", &error, {"-Wl,-soname,libcuda.so.1"});
    std::string why_not;
    if (!module || cuda_available(&why_not)) return 1;
    return why_not.find("the CUDA driver is too old") != std::string::npos ? 0 : 2;
  });
  CHECK(status == 0);
}
