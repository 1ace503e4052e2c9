// Write in place: where the epilogue copies a result into an input, and the result is that input with a part written
// anew, the part is written into the input's memory.  A cache of keys and values is then not copied twice for a token.
//
// Precondition: the calls are claimed and fused, and the program has no backward.  The written calls may run twice, if
// what follows raises and the user's function stands for the program: they give the same then, since nothing else reads
// the input's old contents.
//
//   t3 = index_copy(t0, 2, t1, t2)                 t3 = index_copy_(t0, 2, t1, t2)
//   t4 = sum(t3)                            -->    t4 = sum(t3)
//   return t4, t3                                  return t4, t3
//   (epilogue: copy_(t0, t3))                      (the copy has nothing to do)
#pragma once

#include <utility>
#include <vector>

#include "core/trace.h"
#include "passes/executor.h"

namespace thunder {

/// `copied`: the outputs (of the trace's flat output) that the epilogue copies into inputs and does nothing else with,
/// each with that input.  The executor that runs a call runs what stands for it, too, or it stays.
Trace write_in_place(const Trace& trace, const std::vector<std::pair<size_t, size_t>>& copied,
                     const ExecutorList& executors);

/// The inputs that the trace writes to.
std::vector<size_t> written_in_place(const Trace& trace);

}  // namespace thunder
