#include "runtime/background.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <set>
#include <system_error>
#include <thread>

#include "core/progress.h"
#include "python/gil.h"

namespace thunder {
namespace {

// Never destroyed, so that a thread may leave at any time.
struct Running {
  std::mutex mutex;
  std::condition_variable none, change;
  int count = 0;
  std::multiset<uint64_t> waiting;
  unsigned compiling = 0;
};
Running* running = nullptr;

Running& all() {
  static const bool made = [] {
    running = new Running;
    in_forked_children([] { running = new Running; });
    return true;
  }();
  (void)made;
  return *running;
}

void begin() {
  std::lock_guard lock(all().mutex);
  ++all().count;
}

void end() {
  std::lock_guard lock(all().mutex);
  if (--all().count == 0) all().none.notify_all();
}

// Made before any other object of the thread's, and so destroyed behind them: libraries keep some for each thread.
struct Leaves {
  bool thread = false;
  ~Leaves() {
    if (thread) end();
  }
};
thread_local Leaves leaves;

}  // namespace

uint64_t number_of_compilation() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

CompilesNow::CompilesNow(uint64_t number) {
  static const unsigned most = std::max(1u, std::thread::hardware_concurrency());
  const WithoutGil released;
  const MayFork waits;
  Running& r = all();
  std::unique_lock lock(r.mutex);
  const auto own = r.waiting.insert(number);
  r.change.wait(lock, [&] { return r.compiling < most && *r.waiting.begin() == number; });
  r.waiting.erase(own);
  ++r.compiling;
  r.change.notify_all();
}

CompilesNow::~CompilesNow() {
  Running& r = all();
  std::lock_guard lock(r.mutex);
  --r.compiling;
  r.change.notify_all();
}

void wait_without_gil(const std::function<bool(std::chrono::milliseconds)>& done) {
  const WithoutGil released;
  while (!done(std::chrono::milliseconds(100))) Progress::step("compiling kernels");
}

void run_in_background(std::function<void()> work) {
  const NoFork whole;
  begin();
  auto run = std::make_shared<std::function<void()>>(std::move(work));
  try {
    std::thread([run]() mutable {
      leaves.thread = true;
      const NoFork inside;
      (*run)();
      run.reset();
    }).detach();
  } catch (const std::system_error&) {
    (*run)();
    end();
  }
}

void wait_for_compilations() {
  const WithoutGil released;
  std::unique_lock lock(all().mutex);
  all().none.wait(lock, [] { return all().count == 0; });
}

}  // namespace thunder
