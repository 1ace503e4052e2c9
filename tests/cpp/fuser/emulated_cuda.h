// CUDA text on the host: the threads of a block are coroutines of one thread, so that barriers, shuffles and the way in
// which rows and columns are dealt to threads run without a GPU.  What only a GPU shows (alignment, registers, races
// between blocks) stays unseen; races within a block show where the order of threads changes a result.
#pragma once

#include <cstdint>
#include <string>

#include "fuser/kernel.h"

namespace thunder::test {

/// What emulated kernels need: the CUDA prelude with its instructions as C++, and what runs a grid.
const std::string& emulation_prelude();
/// The text of fuser::emit_cuda() and
///   extern "C" int NAME_grid(const void* const* in, void* const* out, char* partial, const int64* sizes,
///                            const double* numbers, const int* grid, const int* block, int parts, int backwards)
/// and the same of NAME_finish.  `grid` and `block` are x and y.  The result is not 0 where an index is outside of its
/// tensor (1), or threads wait for each other without end (2).  `backwards`: threads run from the last to the first.
std::string emulated(const fuser::Kernel& kernel, const std::string& name);

}  // namespace thunder::test
