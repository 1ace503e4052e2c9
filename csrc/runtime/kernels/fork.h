// What a fork of the process means for threads that compile: they are not in the child, but what they held is.
#pragma once

#include <cstdint>

namespace thunder {

/// Within it a fork of the process by another thread waits: what this thread holds or changes is whole in the child.  It
/// must not wait in it for what the forking thread may have (the GIL) or for what takes long (a program): MayFork is
/// for those.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

/// Within it the process may be forked although this thread is within NoFork.
class MayFork {
 public:
  MayFork();
  ~MayFork();
  MayFork(const MayFork&) = delete;
  MayFork& operator=(const MayFork&) = delete;

 private:
  int depth_;
};

/// How many forks lie between the process that loaded this library and this one: other threads of a smaller number are
/// not here.
uint64_t fork_generation();

/// Calls `renew` in every forked child, where no other thread runs yet: for locks that a thread may hold over a MayFork.
void in_forked_children(void (*renew)());

}  // namespace thunder
