// The order of a program's calls when several of them have become one kernel.
//
// A kernel may stand where the first of its readers stood or where its own last call stood.  It often cannot: an early
// reader wants one of its results, while another result needs most of the program.  Whoever asks for what each call
// needs in turn then runs most of the program before calls that stood much earlier (the gradients of weights, which free
// what they read).  Here such a reader waits instead, and the rest goes on in the order that it had:
//
//   t1 = matmul(t0, a)      t1 reads a, and k makes a and b          t2 = ...(t0)
//   t2 = ...(t0)                                                     t3 = sum(t2)
//   t3 = sum(t2)            -->                                      (a, b) = k(t2)
//   (a, b) = k(t2)                                                   t1 = matmul(t0, a)
#pragma once

#include <vector>

#include "core/trace.h"

namespace thunder::fuser {

/// A call and where it stood.
struct Placed {
  const Call* call = nullptr;
  int place = 0;
  bool movable = false;         ///< a kernel, which its readers want earlier
  const Call* after = nullptr;  ///< that must come before, whatever it makes
};

/// The calls, each after what it needs; of those that are ready the one that stood first goes first.  `calls` are in an
/// order in which each comes after what it needs.
std::vector<const Call*> calls_in_order(const std::vector<Placed>& calls);

}  // namespace thunder::fuser
