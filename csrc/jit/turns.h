// Threads that take turns.
#pragma once

#include <Python.h>
#include <unistd.h>

namespace thunder {

/// One thread at a time, which may enter again.  All of it happens under the GIL, except for the wait.
class Turns {
 public:
  Turns() = default;
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;
  ~Turns() {
    if (lock_) PyThread_free_lock(lock_);
  }

  /// The calling thread's turn.
  class Turn {
   public:
    explicit Turn(Turns& turns) : turns_(&turns), waited_(turns.enter()) {}
    ~Turn() { end(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    /// Whether another thread had its turn meanwhile.
    bool waited() const { return waited_; }
    void end() {
      if (turns_) turns_->leave();
      turns_ = nullptr;
    }

   private:
    Turns* turns_;
    bool waited_;
  };

 private:
  bool enter() {
    const unsigned long me = PyThread_get_thread_ident();
    if (depth_ > 0 && owner_ == me) {
      ++depth_;
      return false;
    }
    // The thread whose turn it was at a fork is not in the child.
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
