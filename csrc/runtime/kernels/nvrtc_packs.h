// Which kernels NVRTC compiles in one program.
//
// A program costs NVRTC 25 to 30 ms before the first kernel, and threads of one process spend them one after the other,
// because NVRTC holds a lock meanwhile.  On 16 cores 288 kernels took 8.2 s each by itself and 2.7 s nine in a program.
#pragma once

#include <cstddef>
#include <vector>

namespace thunder {

/// Divides kernels into programs of about equal work, each of kernels that follow each other: who runs them in this order
/// can begin with those of the first program while the others are compiled.
///
/// Args:
///   lengths: The length of each kernel's text, in bytes; its compilation time grows with it.
///   threads: How many programs are compiled at a time.
/// Returns the programs as ascending indices of `lengths`.  Each index is in one program.
std::vector<std::vector<size_t>> packs_of(const std::vector<size_t>& lengths, size_t threads);

}  // namespace thunder
