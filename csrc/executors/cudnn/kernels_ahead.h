// Compiling cuDNN's attention kernels before they are needed.  cuDNN compiles a kernel at the first call of a kind of
// attention (its direction, types, sizes of heads, mask), which takes half a second, and keeps it for the process.  A
// program that is made asks for all of its kernels at once; its calls would ask for them one after the other.
#pragma once

#include "runtime/instruction.h"

namespace thunder::cudnn {

/// Runs the call once in a thread of its own, on tensors that nobody reads: with a batch of one, and up to 256 MB of
/// them.  `lower` makes its instruction.  Nothing is run where a call of the kind was asked for before, where the call
/// draws random numbers, where a size is known at run time alone, with deterministic algorithms, or without a GPU.
void compile_ahead(const Call& call, const LowerFn& lower);

}  // namespace thunder::cudnn
