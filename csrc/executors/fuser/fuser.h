// The embedded fusion executor: regions of a program become C++ text, compiled for the CPU by the system's compiler and
// for NVIDIA GPUs by NVRTC.  What becomes a kernel is decided in csrc/fuser; here kernels are compiled, in the
// background while the rest of the program is, and run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition fuser_executor();
void register_fuser_lowering();

/// Whether the text for CUDA is made for every kernel, also where it runs on the CPU: tests look at it without a GPU.
void set_always_emit_cuda(bool on);
/// The text for CUDA of the kernels in a program compiled while that was on, prelude included, each once.
std::vector<std::pair<std::string, std::string>> cuda_texts_of(const Trace& trace);

/// The source text of the kernels in a program, in order, each once; of composites' bodies, too.
std::vector<std::pair<std::string, std::string>> kernels_of(const Trace& trace);

}  // namespace thunder
