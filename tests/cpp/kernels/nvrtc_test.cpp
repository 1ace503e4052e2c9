#include "runtime/kernels/nvrtc.h"

#include <doctest.h>

#include <set>

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
      CHECK(is_elf(*results[i].cubin));
      CHECK(results[i].from_cache == from_cache);
    }
    CHECK(*results[0].cubin == *results[2].cubin);
    CHECK(*results[0].cubin != *results[1].cubin);
    CHECK(results[1].cubin->find("rms_norm") != std::string::npos);
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

namespace {

/// Kernels of one prelude; `extra` stands in the first one's body.
std::vector<CudaSource> of_one_prelude(int n, const std::string& extra = "") {
  std::vector<CudaSource> sources;
  for (int i = 0; i < n; ++i)
    sources.push_back(
        {cat("k", i),
         cat("extern \"C\" __global__ void k", i, "(float* x) { x[0] = ADDED + ", i, "; ", i ? "" : extra, " }\n"),
         {},
         "#define ADDED 1\n"});
  return sources;
}

}  // namespace

TEST_CASE("NVRTC: sources of one prelude share programs, and the disk has each of them") {
  if (!have_nvrtc()) return;
  const OwnCache own;
  const std::vector<CudaSource> sources = of_one_prelude(40);
  const auto fresh = compile_cuda(sources, 9, 0);
  std::set<const std::string*> cubins;
  for (size_t i = 0; i < sources.size(); ++i) {
    REQUIRE_MESSAGE(fresh[i].ok(), fresh[i].log);
    CHECK(!fresh[i].from_cache);
    CHECK(fresh[i].cubin->find(sources[i].name) != std::string::npos);
    cubins.insert(fresh[i].cubin.get());
  }
  CHECK(cubins.size() <= 20);
  CHECK(count_entries(own.folder.path()) == static_cast<int>(40 + cubins.size()));
  // In another order and alone, from the disk.
  const auto again = compile_cuda({sources[7], sources[3]}, 9, 0);
  CHECK(again[0].from_cache);
  CHECK(*again[0].cubin == *fresh[7].cubin);
  CHECK(*again[1].cubin == *fresh[3].cubin);
}

TEST_CASE("NVRTC: in this thread, sources of one prelude are one program, but for those that the disk has") {
  if (!have_nvrtc()) return;
  const OwnCache own;
  const std::vector<CudaSource> sources = of_one_prelude(12);
  CHECK(compile_cuda_here({sources[4]}, {9, 0})[0].ok());
  std::set<const std::string*> cubins;
  for (const CompiledCubin& c : compile_cuda_here(sources, {9, 0})) {
    CHECK(c.ok());
    CHECK(c.from_cache == (c.name == sources[4].name));
    cubins.insert(c.cubin.get());
  }
  CHECK(cubins.size() == 2);
}

TEST_CASE("NVRTC: one that fails in a shared program does not take the others with it") {
  if (!have_nvrtc()) return;
  const OwnCache own;
  const auto results = compile_cuda(of_one_prelude(40, "undeclared_name;"), 9, 0);
  CHECK(!results[0].ok());
  CHECK(results[0].log.find("k0.cu") != std::string::npos);
  for (size_t i = 1; i < results.size(); ++i) CHECK_MESSAGE(results[i].ok(), results[i].log);
}

TEST_CASE("NVRTC: other options are another program, and so is another prelude") {
  if (!have_nvrtc()) return;
  const OwnCache own;
  std::vector<CudaSource> sources = of_one_prelude(30);
  for (size_t i = 0; i < 10; ++i) sources[i].options = {"--use_fast_math"};
  for (size_t i = 10; i < 20; ++i) sources[i].prelude = "#define ADDED 2\n";
  const auto results = compile_cuda(sources, 9, 0);
  std::set<const std::string*> of_group[3];
  for (size_t i = 0; i < 30; ++i) of_group[i / 10].insert(results[i].cubin.get());
  for (const std::string* cubin : of_group[0]) CHECK(of_group[1].count(cubin) + of_group[2].count(cubin) == 0);
  for (const std::string* cubin : of_group[1]) CHECK(of_group[2].count(cubin) == 0);
}
