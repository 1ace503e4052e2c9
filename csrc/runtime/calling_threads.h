// Which threads run compiled functions on a GPU: a CUDA graph is recorded only where one does.
//
// PyTorch's releases before 2.12 have one state of random numbers for a recording and for the work of other threads.
// Random numbers and replays of graphs in another thread raise an error there, and a graph that another thread gives up
// ends the process.  The allocator's pools and the libraries' handles are shared in all releases.
#pragma once

#include <memory>

namespace thunder {

/// A thread that calls compiled functions.
struct CallingThread;
/// Of this thread; null within a backward, which runs for the thread that waits for it.
std::shared_ptr<CallingThread> this_calling_thread();

/// For the length of a run of a program.  First waits, without the GIL, while another thread records.
class CallerRuns {
 public:
  /// `caller`: who asked for the run; may be null.
  explicit CallerRuns(std::shared_ptr<CallingThread> caller);
  ~CallerRuns();
  CallerRuns(const CallerRuns&) = delete;
  CallerRuns& operator=(const CallerRuns&) = delete;

 private:
  std::shared_ptr<CallingThread> caller_;
};

/// Whether two threads that are alive run compiled functions, or have in the last ten seconds.
bool several_threads_call();

/// For the length of a recording: runs in other threads wait.
class AlonePeriod {
 public:
  AlonePeriod();
  ~AlonePeriod();
  AlonePeriod(const AlonePeriod&) = delete;
  AlonePeriod& operator=(const AlonePeriod&) = delete;
};

}  // namespace thunder
