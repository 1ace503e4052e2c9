// Mutual exclusion of the threads that call one compiled function.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace thunder {

/// A recursive lock.  Only the wait for it happens without the GIL.
class CallLock {
 public:
  CallLock() = default;
  CallLock(const CallLock&) = delete;
  CallLock& operator=(const CallLock&) = delete;
  ~CallLock() {
    if (lock_) PyThread_free_lock(lock_);
  }

  /// Holds the lock until unlock(), or for the length of a scope.
  class Guard {
   public:
    explicit Guard(CallLock& lock) : lock_(&lock), waited_(lock.enter()) {}
    ~Guard() { unlock(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    /// Whether another thread held the lock meanwhile.
    bool waited() const { return waited_; }
    void unlock() {
      if (lock_) lock_->leave();
      lock_ = nullptr;
    }

   private:
    CallLock* lock_;
    bool waited_;
  };

 private:
  bool enter() {
    const unsigned long me = PyThread_get_thread_ident();
    if (depth_ > 0 && owner_ == me) {
      ++depth_;
      return false;
    }
    // The thread that held the lock at a fork is not in the child.
    if (const pid_t process = getpid(); !lock_ || process_ != process) {
      lock_ = PyThread_allocate_lock();
      process_ = process;
    }
    bool waited = false;
    if (!PyThread_acquire_lock(lock_, NOWAIT_LOCK)) {
      waited = true;
      Py_BEGIN_ALLOW_THREADS;
      PyThread_acquire_lock(lock_, WAIT_LOCK);
      Py_END_ALLOW_THREADS;
    }
    owner_ = me;
    depth_ = 1;
    return waited;
  }
  void leave() {
    if (--depth_ == 0) PyThread_release_lock(lock_);
  }

  PyThread_type_lock lock_ = nullptr;
  unsigned long owner_ = 0;
  int depth_ = 0;
  pid_t process_ = 0;
};

}  // namespace thunder
