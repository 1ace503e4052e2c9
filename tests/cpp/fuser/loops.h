// The loop IR as plain loops on the host: what the header of the IR says, statement by statement, with vectors and
// cached rows, so that kernels with several lanes run without a GPU.
#pragma once

#include <string>

#include "fuser/kernel.h"

namespace thunder::test {

/// What the loops need behind the host's prelude: vectors, whose accesses set `th_misaligned` where an address is not a
/// multiple of their size.
const std::string& loops_prelude();
/// extern "C" int NAME(const void* const* in, void* const* out, const int64* sizes, const double* numbers); the result is
/// not 0 if an index was outside of its tensor.
std::string loops(const fuser::Kernel& kernel, const std::string& name);

}  // namespace thunder::test
