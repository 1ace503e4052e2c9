#include "runtime/kernels/fork.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace thunder {
namespace {

// A fork waits so long at most: a child whose state may be torn is better than a process that stands still.
constexpr std::chrono::seconds kMostWait{30};

/// Shared by those within NoFork, exclusive to who forks.  Never destroyed, so that a thread may leave at any time.
struct Gate {
  std::shared_timed_mutex inside;
  std::atomic<uint64_t> generation{0};
  std::mutex adding;
  std::vector<void (*)()> renew;
  bool closed = false;  // by the thread that forks
};

thread_local int depth = 0;  // of NoFork

Gate& gate();

void before_fork() {
  Gate& g = gate();
  g.closed = depth == 0 && g.inside.try_lock_for(kMostWait);
}

void after_fork_in_parent() {
  Gate& g = gate();
  if (std::exchange(g.closed, false)) g.inside.unlock();
}

void after_fork_in_child() {
  Gate& g = gate();
  // Threads that hold it or wait for it are not here.
  new (&g.inside) std::shared_timed_mutex;
  new (&g.adding) std::mutex;
  if (depth) g.inside.lock_shared();
  g.closed = false;
  ++g.generation;
  for (auto renew : g.renew) renew();
}

Gate& gate() {
  static Gate* made = [] {
    ::pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    return new Gate;
  }();
  return *made;
}

}  // namespace

NoFork::NoFork() {
  if (depth++ == 0) gate().inside.lock_shared();
}

NoFork::~NoFork() {
  if (--depth == 0) gate().inside.unlock_shared();
}

MayFork::MayFork() : depth_(std::exchange(depth, 0)) {
  if (depth_) gate().inside.unlock_shared();
}

MayFork::~MayFork() {
  if (depth_) gate().inside.lock_shared();
  depth = depth_;
}

uint64_t fork_generation() { return gate().generation.load(std::memory_order_relaxed); }

void in_forked_children(void (*renew)()) {
  const NoFork inside;
  std::lock_guard lock(gate().adding);
  gate().renew.push_back(renew);
}

}  // namespace thunder
