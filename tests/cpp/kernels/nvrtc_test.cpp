#include "runtime/kernels/nvrtc.h"

#include <doctest.h>

#include "core/error.h"
#include "kernels/cuda_sources.h"
#include "kernels/scratch.h"

using namespace thunder;
using namespace kernel_test;

namespace {

/// Whether NVRTC is here; says so if not.
bool have_nvrtc() {
  std::string why_not;
  const bool have = nvrtc_available(&why_not);
  if (!have) MESSAGE("skipped: " << why_not << " (THUNDER_NVRTC=/path/of/libnvrtc.so.13)");
  return have;
}

bool is_elf(const std::string& bytes) {
  return bytes.compare(0, 4,
                       "\x7f"
                       "ELF") == 0;
}

}  // namespace

TEST_CASE("NVRTC: without it every source has the reason") {
  if (!in_own_process()) return;
  const OwnCache own;
  const Environment variable("THUNDER_NVRTC", "/no/such/libnvrtc.so");
  std::string why_not;
  CHECK(!nvrtc_available(&why_not));
  CHECK(why_not.find("/no/such/libnvrtc.so") != std::string::npos);
  const auto results = compile_cuda({{"a", kAddOne}, {"b", kRmsNorm}}, 9, 0);
  CHECK(results.size() == 2);
  for (const CompiledCubin& result : results) {
    CHECK(!result.ok());
    CHECK(result.log.find("no NVRTC") != std::string::npos);
  }
  CHECK(nvrtc_version().major == 0);
}

TEST_CASE("NVRTC: a file that is no library is a reason too") {
  if (!in_own_process()) return;
  const OwnCache own;
  const Folder folder;
  write_file(folder.path() + "/libnvrtc.so.13", "not a library");
  const Environment variable("THUNDER_NVRTC", folder.path() + "/libnvrtc.so.13");
  const auto results = compile_cuda({{"a", kAddOne}}, 9, 0);
  CHECK(!results[0].ok());
  CHECK(results[0].log.find("cannot load NVRTC") != std::string::npos);
}

TEST_CASE("NVRTC: sources become cubins, in order, equal ones alike, from the disk the second time") {
  if (!have_nvrtc()) return;
  const OwnCache own;
  const std::vector<CudaSource> sources = {{"add_one", kAddOne}, {"rms_norm", kRmsNorm}, {"again", kAddOne}};
  for (bool from_cache : {false, true}) {
    const auto results = compile_cuda(sources, 9, 0);
    REQUIRE(results.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      REQUIRE_MESSAGE(results[i].ok(), results[i].log);
      CHECK(results[i].name == sources[i].name);
      CHECK(is_elf(results[i].cubin));
      CHECK(results[i].from_cache == from_cache);
    }
    CHECK(results[0].cubin == results[2].cubin);
    CHECK(results[0].cubin != results[1].cubin);
    CHECK(results[1].cubin.find("rms_norm") != std::string::npos);
  }
  CHECK(count_entries(own.folder.path()) == 2);
}

TEST_CASE("NVRTC: the architecture and the options are part of what is cached") {
  if (!have_nvrtc()) return;
  const OwnCache own;
  const CudaSource source{"add_one", kAddOne};
  CudaSource fast = source;
  fast.options = {"--use_fast_math"};
  CHECK(compile_cuda({source}, 9, 0)[0].ok());
  const auto specific = compile_cuda({source}, CudaArch{9, 0, true});
  CHECK(specific[0].ok());
  CHECK(!specific[0].from_cache);
  CHECK(!compile_cuda({source}, 8, 0)[0].from_cache);
  CHECK(!compile_cuda({fast}, 9, 0)[0].from_cache);
  CHECK(compile_cuda({fast}, 9, 0)[0].from_cache);
}

TEST_CASE("NVRTC: one source that fails has NVRTC's messages, the others their cubins") {
  if (!have_nvrtc()) return;
  const OwnCache own;
  const auto results =
      compile_cuda({{"good", kAddOne}, {"bad", "extern \"C\" __global__ void f() { undeclared_name; }"}}, 9, 0);
  CHECK(results[0].ok());
  CHECK(!results[1].ok());
  CHECK(results[1].log.find("undeclared_name") != std::string::npos);
  CHECK(results[1].log.find("bad.cu") != std::string::npos);
  CHECK(count_entries(own.folder.path()) == 1);
  CHECK(!compile_cuda({{"a", kAddOne}}, 1, 0)[0].ok());
  CHECK(compile_cuda({}, 9, 0).empty());
}

TEST_CASE("NVRTC: many sources compile in threads") {
  if (!have_nvrtc()) return;
  const OwnCache own;
  std::vector<CudaSource> sources;
  for (int i = 0; i < 12; ++i) sources.push_back({cat("k", i), cat("#define ADDED ", i, "\n", kAddOne)});
  for (const CompiledCubin& result : compile_cuda(sources, 9, 0)) CHECK_MESSAGE(result.ok(), result.log);
  CHECK(count_entries(own.folder.path()) == 12);
  CHECK(nvrtc_version().major >= 11);
}
