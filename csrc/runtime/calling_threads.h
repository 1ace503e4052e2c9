// Which threads call compiled functions: while one records a CUDA graph, no other may work on the GPU.
//
// PyTorch's releases before 2.12 keep one state of random numbers for a recording and for all that other threads do
// meanwhile.  A graph that another thread replays, and random numbers that it draws, raise an error then, and a graph
// that it gives up ends the process.
#pragma once

namespace thunder {

/// This thread calls a compiled function.  A call within a backward is the caller's of that, which waits.
void note_calling_thread();
/// Whether two threads that are alive have called compiled functions in the last ten seconds.
bool several_threads_call();

/// For the length of a scope, calls in other threads wait; the GIL must be held.
class AlonePeriod {
 public:
  AlonePeriod();
  ~AlonePeriod();
  AlonePeriod(const AlonePeriod&) = delete;
  AlonePeriod& operator=(const AlonePeriod&) = delete;
};
/// Waits while another thread is in such a scope, without the GIL.
void wait_for_alone_period();

}  // namespace thunder
