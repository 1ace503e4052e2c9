#include "runtime/kernels/host_compiler.h"

#include <dlfcn.h>
#include <doctest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/warning.h"
#include "kernels/scratch.h"
#include "runtime/kernels/process.h"

using namespace thunder;
using namespace kernel_test;

namespace {

const std::string kDouble = R"(
extern "C" float expf(float);
extern "C" void twice(const float* x, float* y, long n) { for (long i = 0; i < n; ++i) y[i] = 2.0f * x[i]; }
extern "C" float exponential(float x) { return expf(x); }
)";

/// Whether there is a compiler; says so if not.
bool have_compiler() {
  std::string why_not;
  const bool have = !host_compiler_command(&why_not).empty();
  if (!have) MESSAGE("skipped: " << why_not);
  return have;
}

bool works(const HostModule& module) {
  auto* twice = reinterpret_cast<void (*)(const float*, float*, long)>(module.symbol("twice"));
  const std::vector<float> x(1000, 1.5f);
  std::vector<float> y(1000);
  twice(x.data(), y.data(), 1000);
  return y == std::vector<float>(1000, 3.0f);
}

/// The largest file in the cache: the library, beside the compiler's version.
std::string library_in(const std::string& folder) {
  std::string largest;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && (largest.empty() || entry.file_size() > std::filesystem::file_size(largest)))
      largest = entry.path().string();
  return largest;
}

}  // namespace

TEST_CASE("host compiler: a source becomes functions, and comes from the disk the second time") {
  if (!have_compiler()) return;
  const OwnCache own;
  std::string error;
  {
    const auto module = compile_host(kDouble, &error);
    REQUIRE_MESSAGE(module, error);
    CHECK(!module->from_cache());
    CHECK(works(*module));
    auto* exponential = reinterpret_cast<float (*)(float)>(module->symbol("exponential"));
    CHECK(exponential(0.0f) == 1.0f);
    CHECK_THROWS_AS(module->symbol("thrice"), Error);
    CHECK(compile_host(kDouble, &error) == module);
  }
  const auto module = compile_host(kDouble, &error);
  REQUIRE_MESSAGE(module, error);
  CHECK(module->from_cache());
  CHECK(works(*module));
}

TEST_CASE("host compiler: flags are part of what is cached") {
  if (!have_compiler()) return;
  const OwnCache own;
  std::string error;
  const std::string source = "extern \"C\" int answer() { return ANSWER; }";
  for (int answer : {1, 2}) {
    const auto module = compile_host(source, &error, {cat("-DANSWER=", answer)});
    REQUIRE_MESSAGE(module, error);
    CHECK(!module->from_cache());
    CHECK(reinterpret_cast<int (*)()>(module->symbol("answer"))() == answer);
  }
}

TEST_CASE("host compiler: what it refuses is an error with its messages") {
  if (!have_compiler()) return;
  const OwnCache own;
  std::string error;
  CHECK(!compile_host("extern \"C\" int f() { return undeclared_name; }", &error));
  CHECK(error.find("undeclared_name") != std::string::npos);
  CHECK(
      !compile_host("extern \"C\" int nowhere_defined(); extern \"C\" int f() { return nowhere_defined(); }", &error));
  CHECK(error.find("nowhere_defined") != std::string::npos);
  CHECK(!compile_host(kDouble, &error, {"-fno-such-flag-exists"}));
  CHECK(error.find("no-such-flag") != std::string::npos);
}

TEST_CASE("host compiler: functions of the C library") {
  if (!have_compiler()) return;
  const OwnCache own;
  std::string error;
  // Two versions of it are in glibc.
  const auto declared = compile_host(
      "extern \"C\" double lgamma(double) noexcept; extern \"C\" void* f() { return (void*)&lgamma; }", &error);
  REQUIRE_MESSAGE(declared, error);
  CHECK(reinterpret_cast<void* (*)()>(declared->symbol("f"))() == ::dlsym(RTLD_DEFAULT, "lgamma"));
  const auto builtin = compile_host("extern \"C\" float f(float x) { return __builtin_erff(x); }", &error);
  REQUIRE_MESSAGE(builtin, error);
  CHECK(reinterpret_cast<float (*)(float)>(builtin->symbol("f"))(9.0f) == 1.0f);
}

TEST_CASE("host compiler: without a compiler there is a reason") {
  const Folder empty;
  const OwnCache own;
  const Environment path("PATH", empty.path());
  const Environment cxx("CXX", std::nullopt);
  std::string error;
  CHECK(!compile_host(kDouble, &error));
  CHECK(error == "no working C++ compiler by $CXX or on $PATH (c++: not found; g++: not found; clang++: not found)");
  CHECK(host_compiler_command().empty());
}

TEST_CASE("host compiler: a program that only looks like one is passed over") {
  if (!have_compiler()) return;
  const Folder folder;
  const OwnCache own;
  write_file(folder.path() + "/broken", "#!/bin/sh\nexit 1\n");
  std::filesystem::permissions(folder.path() + "/broken", std::filesystem::perms::owner_all);
  const Environment cxx("CXX", folder.path() + "/broken --with words");
  std::string error;
  const auto module = compile_host(kDouble, &error);
  REQUIRE_MESSAGE(module, error);
  CHECK(works(*module));
}

TEST_CASE("host compiler: CXX may be a command of several words") {
  if (!have_compiler()) return;
  const OwnCache own;
  std::string why_not;
  const std::string compiler = host_compiler_command(&why_not).front();
  const Environment cxx("CXX", compiler + " -DFROM_CXX=7");
  const auto module = compile_host("extern \"C\" int answer() { return FROM_CXX; }", &why_not);
  REQUIRE_MESSAGE(module, why_not);
  CHECK(reinterpret_cast<int (*)()>(module->symbol("answer"))() == 7);
}

TEST_CASE("host compiler: a damaged entry is compiled again") {
  if (!have_compiler()) return;
  const OwnCache own;
  std::string error;
  REQUIRE_MESSAGE(compile_host(kDouble, &error), error);
  const std::string file = library_in(own.folder.path());
  write_file(file, contents(file).substr(0, 3000));
  for (bool from_cache : {false, true}) {
    const auto module = compile_host(kDouble, &error);
    REQUIRE_MESSAGE(module, error);
    CHECK(module->from_cache() == from_cache);
    CHECK(works(*module));
  }
}

TEST_CASE("host compiler: it works without a cache, with one warning") {
  if (!have_compiler()) return;
  const Folder folder;
  write_file(folder.path() + "/file", "in the way");
  const int status = in_child([&] {
    const Environment cache("THUNDER_CACHE_DIR", folder.path() + "/file/cache");
    static int warnings = 0;
    set_warning_handler([](const std::string&) { ++warnings; });
    std::string error;
    const auto first = compile_host(kDouble, &error);
    const auto second = compile_host("extern \"C\" int one() { return 1; }", &error);
    return first && second && works(*first) && warnings == 1 ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("host compiler: no temporary folder is an error and leaves nothing behind") {
  if (!have_compiler()) return;
  const OwnCache own;
  std::string error;
  const Folder folder;
  {
    const Environment temporary("TMPDIR", folder.path());
    REQUIRE_MESSAGE(compile_host(kDouble, &error), error);
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  const Environment temporary("TMPDIR", folder.path() + "/none");
  CHECK(!compile_host("extern \"C\" int two() { return 2; }", &error));
  CHECK(error.find("cannot write a temporary file") != std::string::npos);
}

TEST_CASE("host compiler: each library is its own, whatever was loaded before under its descriptor's number") {
  if (!have_compiler()) return;
  const OwnCache own;
  std::string error;
  std::vector<std::shared_ptr<HostModule>> modules;
  for (int i = 0; i < 5; ++i)
    modules.push_back(compile_host(cat("extern \"C\" int number() { return ", i, "; }"), &error));
  for (int i = 0; i < 5; ++i) {
    REQUIRE_MESSAGE(modules[static_cast<size_t>(i)], error);
    CHECK(reinterpret_cast<int (*)()>(modules[static_cast<size_t>(i)]->symbol("number"))() == i);
  }
}

TEST_CASE("host compiler: temporary folders that killed processes left are removed and those of living ones are not") {
  if (!have_compiler() || !in_own_process()) return;
  const OwnCache own;
  std::string error;
  const WaitingCompiler slow(host_compiler_command(&error).front());
  const Folder folder;
  const Environment temporary("TMPDIR", folder.path());
  auto folders = [&] {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      if (entry.is_directory()) out.push_back(entry.path().string());
    return out;
  };
  // Returns once the compiler runs: a child that has not become the compiler yet holds its parent's locks.
  auto start = [&](int n) {
    std::filesystem::remove(slow.begun);
    const pid_t child = start_child([&] {
      const Environment cxx("CXX", slow.path);
      return compile_host(cat("extern \"C\" int number() { return ", n, "; }"), &error) ? 0 : 1;
    });
    CHECK(eventually([&] { return std::filesystem::exists(slow.begun); }));
    return child;
  };
  const pid_t killed = start(1);
  const std::string left = folders().at(0);
  ::kill(killed, SIGKILL);
  wait_for(killed);
  CHECK(std::filesystem::exists(left));
  const std::string own_data = folder.path() + "/thunder-kernels-theirs";
  std::filesystem::create_directory(own_data);
  write_file(own_data + "/data", "not ours");
  const pid_t living = start(2);
  CHECK(!std::filesystem::exists(left));
  REQUIRE_MESSAGE(compile_host(kDouble, &error), error);  // looks, too
  CHECK(contents(own_data + "/data") == "not ours");
  CHECK(folders().size() == 2);
  write_file(slow.go, "");
  CHECK(wait_for(living) == 0);
  CHECK(folders() == std::vector<std::string>{own_data});
}

TEST_CASE("host compiler: threads share one compilation, processes do not disturb each other") {
  if (!have_compiler()) return;
  const OwnCache own;
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i)
    children.push_back(start_child([] {
      std::string error;
      const auto module = compile_host(kDouble, &error);
      return module && works(*module) ? 0 : 1;
    }));
  std::vector<std::shared_ptr<HostModule>> modules(4);
  std::vector<std::thread> threads;
  for (auto& module : modules)
    threads.emplace_back([&module] {
      std::string error;
      module = compile_host(kDouble, &error);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& module : modules) {
    REQUIRE(module);
    CHECK(module == modules[0]);
  }
  CHECK(works(*modules[0]));
  for (pid_t child : children) CHECK(wait_for(child) == 0);
}

TEST_CASE("host compiler: a process that ignores its children's ends can compile") {
  if (!have_compiler()) return;
  const OwnCache own;
  const int status = in_child([] {
    ::signal(SIGCHLD, SIG_IGN);
    std::string error;
    const auto module = compile_host(kDouble, &error);
    return module && works(*module) ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("programs: what cannot be started says why") {
  const Folder folder;
  std::string problem;
  CHECK(run_program({folder.path() + "/none"}, folder.path() + "/log", &problem) == -1);
  CHECK(!problem.empty());
  CHECK(find_program("no-such-program-anywhere").empty());
  CHECK(find_program("").empty());
  CHECK(find_program(folder.path()).empty());
}
