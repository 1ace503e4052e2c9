#include "runtime/calling_threads.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/gil.h"

namespace thunder {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRecent{10};

struct Caller {
  std::atomic<Clock::rep> last{0};
};

struct Callers {
  std::mutex mutex;
  std::vector<const Caller*> alive;
  // Who records, if somebody does.
  std::condition_variable changed;
  std::atomic<std::thread::id> alone{};
};

// Threads may end after the process's static objects.
Callers& callers() {
  static auto* c = new Callers;
  return *c;
}

// Of one thread, as long as that lives.
struct Registered {
  Registered() {
    const std::lock_guard lock(callers().mutex);
    callers().alive.push_back(&caller);
  }
  ~Registered() {
    const std::lock_guard lock(callers().mutex);
    std::erase(callers().alive, &caller);
  }
  Caller caller;
};

}  // namespace

void note_calling_thread() {
  if (torch::autograd::get_current_graph_task_id() != -1) return;
  static thread_local Registered here;
  here.caller.last.store(Clock::now().time_since_epoch().count());
}

bool several_threads_call() {
  const Clock::rep since = (Clock::now() - kRecent).time_since_epoch().count();
  const std::lock_guard lock(callers().mutex);
  return std::count_if(callers().alive.begin(), callers().alive.end(),
                       [&](const Caller* c) { return c->last.load() >= since; }) > 1;
}

AlonePeriod::AlonePeriod() { callers().alone = std::this_thread::get_id(); }

AlonePeriod::~AlonePeriod() {
  {
    const std::lock_guard lock(callers().mutex);
    callers().alone = std::thread::id();
  }
  callers().changed.notify_all();
}

void wait_for_alone_period() {
  const auto over = [] {
    const std::thread::id alone = callers().alone;
    return alone == std::thread::id() || alone == std::this_thread::get_id();
  };
  if (over()) return;
  const WithoutGil released(PyGILState_Check() == 1);
  std::unique_lock lock(callers().mutex);
  callers().changed.wait(lock, over);
}

}  // namespace thunder
