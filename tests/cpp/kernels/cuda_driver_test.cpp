#include "runtime/kernels/cuda_driver.h"

#include <dlfcn.h>
#include <doctest.h>

#include <vector>

#include "core/error.h"
#include "kernels/cuda_sources.h"
#include "kernels/scratch.h"
#include "runtime/kernels/cuda_api.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/kernels/nvrtc.h"

using namespace thunder;
using namespace kernel_test;

namespace {

bool have_gpu() {
  std::string why_not;
  const bool have = cuda_available(&why_not) && nvrtc_available(&why_not);
  if (!have) MESSAGE("skipped: " << why_not);
  return have;
}

/// Memory of the device, by functions that the runtime itself does not need.
struct DeviceFloats {
  explicit DeviceFloats(const std::vector<float>& values) : size(values.size() * sizeof(float)) {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
    auto* allocate = reinterpret_cast<int (*)(unsigned long long*, size_t)>(::dlsym(driver, "cuMemAlloc_v2"));
    auto* upload =
        reinterpret_cast<int (*)(unsigned long long, const void*, size_t)>(::dlsym(driver, "cuMemcpyHtoD_v2"));
    download = reinterpret_cast<int (*)(void*, unsigned long long, size_t)>(::dlsym(driver, "cuMemcpyDtoH_v2"));
    REQUIRE(allocate(&address, size) == 0);
    REQUIRE(upload(address, values.data(), size) == 0);
  }
  std::vector<float> read() const {
    std::vector<float> out(size / sizeof(float));
    REQUIRE(download(out.data(), address, size) == 0);
    return out;
  }
  size_t size;
  unsigned long long address = 0;
  int (*download)(void*, unsigned long long, size_t);
};

std::shared_ptr<const std::string> cubin_for_device(const char* source) {
  const CudaDeviceProperties& p = cuda_device_properties(0);
  CompiledCubin result = compile_cuda({{"test", source}}, p.major, p.minor)[0];
  REQUIRE_MESSAGE(result.ok(), result.log);
  return result.cubin;
}

}  // namespace

TEST_CASE("CUDA driver: without a device everything says why") {
  std::string why_not;
  if (cuda_available(&why_not)) {
    MESSAGE("skipped: this machine has a device");
    return;
  }
  CHECK(!why_not.empty());
  CHECK(cuda_device_count() == 0);
  const CudaKernel kernel(std::make_shared<const std::string>("cubin"), "k");
  CHECK_THROWS_AS(kernel.prepare(0), Error);
  CHECK_THROWS_AS(kernel.launch(0, {}, {}, 0, nullptr, nullptr), Error);
  CHECK_THROWS_AS(cuda_device_properties(0), Error);
}

TEST_CASE("CUDA driver: without PyTorch's CUDA there is no current stream") {
  CHECK_THROWS_WITH_AS(current_cuda_stream(0),
                       "[cuda] the PyTorch in this process has no CUDA (libtorch_cuda.so is not loaded)", Error);
}

TEST_CASE("CUDA driver: a kernel without bytes is our mistake") {
  CHECK_THROWS_AS(CudaKernel(nullptr, "k"), Error);
  CHECK_THROWS_AS(CudaKernel(std::make_shared<const std::string>(), "k"), Error);
}

TEST_CASE("CUDA driver: a kernel runs, and the thread's context is what it was") {
  if (!have_gpu()) return;
  const OwnCache own;
  const CudaKernel kernel(cubin_for_device(kAddOne), "add_one");
  kernel.prepare(0);
  void* current = &current;
  REQUIRE(require_cuda().cuCtxGetCurrent(&current) == 0);
  CHECK(current == nullptr);

  const CudaContextScope scope(0);
  const int n = 100000;
  const DeviceFloats x(std::vector<float>(n, 2.0f)), y(std::vector<float>(n, 0.0f));
  int size = n;
  unsigned long long from = x.address, to = y.address;
  void* params[] = {&from, &to, &size};
  kernel.launch(0, {64}, {256}, 0, nullptr, params);
  CHECK(y.read() == std::vector<float>(n, 3.0f));
}

TEST_CASE("CUDA driver: properties, attributes and occupancy") {
  if (!have_gpu()) return;
  const OwnCache own;
  const CudaDeviceProperties& p = cuda_device_properties(0);
  CHECK(p.multiprocessors > 0);
  CHECK(p.l2_bytes > 0);
  CHECK(p.shared_per_block_optin >= p.shared_per_block);
  const CudaKernel kernel(cubin_for_device(kRmsNorm), "rms_norm");
  const CudaKernelAttributes a = kernel.attributes(0);
  CHECK(a.registers > 0);
  CHECK(a.max_threads >= 256);
  CHECK(a.static_shared == 32);
  CHECK(a.local_bytes == 0);
  CHECK(kernel.blocks_per_multiprocessor(0, 256, 0) >= 1);
  kernel.reserve_shared(0, p.shared_per_block_optin - 1024);
  CHECK(kernel.blocks_per_multiprocessor(0, 256, p.shared_per_block_optin - 1024) == 1);
}

TEST_CASE("CUDA driver: what the driver refuses is an exception with its name for it") {
  if (!have_gpu()) return;
  const OwnCache own;
  const CudaKernel missing(cubin_for_device(kAddOne), "not_there");
  CHECK_THROWS_WITH_AS(missing.prepare(0), doctest::Contains("CUDA_ERROR_NOT_FOUND"), Error);
  const CudaKernel kernel(cubin_for_device(kAddOne), "add_one");
  CHECK_THROWS_WITH_AS(kernel.launch(0, {1}, {4096}, 0, nullptr, nullptr), doctest::Contains("CUDA_ERROR_INVALID"),
                       Error);
  CHECK_THROWS_AS(kernel.prepare(kMaxDevices), Error);
  CHECK_THROWS_AS(kernel.prepare(cuda_device_count()), Error);
}
