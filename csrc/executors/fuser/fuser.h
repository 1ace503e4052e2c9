// The embedded fusion executor: regions of a program become C++ text, compiled for the CPU by the system's compiler and for NVIDIA
// GPUs by NVRTC.  What becomes a kernel is decided in csrc/fuser; here kernels are compiled, in the background while the rest of
// the program is, and run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "passes/executor.h"

namespace thunder {

std::shared_ptr<Executor> make_fuser_executor();
void register_fuser_lowering();

/// The source text of the kernels in a program, in order, each once; of composites' bodies, too.
std::vector<std::pair<std::string, std::string>> kernels_of(const Trace& trace);

}  // namespace thunder
