#include "runtime/kernels/fork.h"

#include <doctest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "core/error.h"
#include "kernels/scratch.h"
#include "runtime/kernels/host_compiler.h"

using namespace thunder;
using namespace kernel_test;
using std::chrono::milliseconds;

namespace {

std::atomic<int> renewed{0};

}  // namespace

TEST_CASE("fork: it waits for who is within NoFork and for nobody else") {
  struct Torn {
    std::mutex mutex;
    int first = 0, second = 0;
  } torn;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      {
        const NoFork whole;
        std::lock_guard lock(torn.mutex);
        ++torn.first;
        std::this_thread::sleep_for(milliseconds(2));
        ++torn.second;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  for (int i = 0; i < 20; ++i)
    CHECK(in_child([&] {
            std::lock_guard lock(torn.mutex);
            return torn.first == torn.second ? 0 : 1;
          }) == 0);
  stop = true;
  writer.join();
}

TEST_CASE("fork: within MayFork a thread keeps nobody waiting, and NoFork holds again after it") {
  std::atomic<bool> waiting{false}, stop{false}, inside{false};
  std::thread waiter([&] {
    const NoFork whole;
    {
      const NoFork nested;
      const MayFork may;
      waiting = true;
      while (!stop) std::this_thread::sleep_for(milliseconds(1));
    }
    inside = true;
    std::this_thread::sleep_for(milliseconds(200));
    inside = false;
  });
  CHECK(eventually([&] { return waiting.load(); }));
  const auto start = std::chrono::steady_clock::now();
  CHECK(in_child([] { return 0; }) == 0);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  stop = true;
  CHECK(eventually([&] { return inside.load(); }));
  CHECK(in_child([&] { return inside ? 1 : 0; }) == 0);
  waiter.join();
}

TEST_CASE("fork: children count generations, are told, and can fork and compile themselves") {
  in_forked_children([] { ++renewed; });
  const uint64_t generation = fork_generation();
  const int before = renewed;
  CHECK(in_child([&] {
          if (fork_generation() != generation + 1 || renewed != before + 1) return 1;
          std::thread([] { const NoFork whole; }).join();
          return in_child([&] { return fork_generation() == generation + 2 && renewed == before + 2 ? 0 : 1; });
        }) == 0);
  CHECK(fork_generation() == generation);
  CHECK(renewed == before);
}

TEST_CASE("fork: a child compiles what its parent is compiling") {
  const OwnCache own;
  std::string error;
  const std::vector<std::string> command = host_compiler_command(&error);
  if (command.empty()) {
    MESSAGE("skipped: " << error);
    return;
  }
  const WaitingCompiler slow(command.front());
  const Environment cxx("CXX", slow.path);
  const std::string source = "extern \"C\" int number() { return 7; }";
  auto number = [&] {
    std::string problem;
    const auto module = compile_host(source, &problem);
    if (!module) std::fputs(problem.c_str(), stderr);
    return module ? reinterpret_cast<int (*)()>(module->symbol("number"))() : -1;
  };
  std::atomic<int> first{0}, second{0};
  std::thread compiling([&] { first = number(); });
  std::thread sharing([&] { second = number(); });
  CHECK(eventually([&] { return std::filesystem::exists(slow.begun); }));
  std::this_thread::sleep_for(milliseconds(50));
  const pid_t child = start_child([&] { return number() == 7 ? 0 : 1; });
  std::this_thread::sleep_for(milliseconds(50));
  write_file(slow.go, "");
  CHECK(wait_for(child) == 0);
  compiling.join();
  sharing.join();
  CHECK(first == 7);
  CHECK(second == 7);
}
