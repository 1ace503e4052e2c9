#include "runtime/calling_threads.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "python/gil.h"
#include "runtime/kernels/fork.h"

namespace thunder {

struct CallingThread {
  std::atomic<std::chrono::steady_clock::rep> last{0};
  std::atomic<int> running{0};  // runs that have begun and not ended
};

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kRecent{10};

struct Callers {
  std::mutex mutex;
  std::vector<std::shared_ptr<CallingThread>> alive;
  std::condition_variable changed;
  std::atomic<std::thread::id> alone{};  // who records, if somebody does
};

Callers* current = nullptr;

// Threads may end after the process's static objects, and a forked child has none of the others: nothing is destroyed.
Callers& callers() {
  static const bool once = [] {
    current = new Callers;
    in_forked_children([] { current = new Callers; });
    return true;
  }();
  static_cast<void>(once);
  return *current;
}

// Of one thread, as long as that lives.
struct Registered {
  std::shared_ptr<CallingThread> thread = std::make_shared<CallingThread>();
  const Callers* in = nullptr;

  void enter() {
    if (in == &callers()) return;
    in = &callers();
    const std::lock_guard lock(callers().mutex);
    callers().alive.push_back(thread);
  }
  ~Registered() {
    const std::lock_guard lock(callers().mutex);
    std::erase(callers().alive, thread);
  }
};

void wait_for_alone_period() {
  const auto over = [] {
    const std::thread::id alone = callers().alone;
    return alone == std::thread::id() || alone == std::this_thread::get_id();
  };
  if (over()) return;
  const WithoutGil released;
  std::unique_lock lock(callers().mutex);
  callers().changed.wait(lock, over);
}

}  // namespace

std::shared_ptr<CallingThread> this_calling_thread() {
  if (torch::autograd::get_current_graph_task_id() != -1) return nullptr;
  static thread_local Registered here;
  here.enter();
  return here.thread;
}

// The thread counts before it looks whether another one records; that one looks for others after it said so.
CallerRuns::CallerRuns(std::shared_ptr<CallingThread> caller) : caller_(std::move(caller)) {
  if (caller_) ++caller_->running;
  wait_for_alone_period();
}

CallerRuns::~CallerRuns() {
  if (!caller_) return;
  caller_->last = Clock::now().time_since_epoch().count();
  --caller_->running;
}

bool several_threads_call() {
  const Clock::rep since = (Clock::now() - kRecent).time_since_epoch().count();
  const std::lock_guard lock(callers().mutex);
  return std::count_if(callers().alive.begin(), callers().alive.end(),
                       [&](const auto& c) { return c->running > 0 || c->last >= since; }) > 1;
}

AlonePeriod::AlonePeriod() { callers().alone = std::this_thread::get_id(); }

AlonePeriod::~AlonePeriod() {
  {
    const std::lock_guard lock(callers().mutex);
    callers().alone = std::thread::id();
  }
  callers().changed.notify_all();
}

}  // namespace thunder
