// Constants made once: calls that depend on no input run once for a program, and their results are kept.
//
// Models make positions, tables and masks of `arange` in every call. What of them is a value in memory between two
// kernels is one for all calls. What a kernel makes for itself alone costs less than reading it, and stays in the kernel.
//
// Precondition: calls are claimed and fused.
//
//   t1 = fusion0()                            (t2,) = constants0()
//     # iota, lt, where                         # t1 = fusion0()
//   t2 = cumsum(t1, 0)               -->        # t2 = cumsum(t1, 0)
//   t3 = fusion1(t0, t2)                      t3 = fusion1(t0, t2)
//   return t3                                 return t3
//
// Left where they are: results that the caller gets, or that something writes to; random numbers and other effects;
// sizes that only a run knows; products, whose precision is set in the process; results that are large, since memory
// that is kept is lost to the rest of the program.
//
// The executor `constants` runs the call (executors/constants).
#pragma once

#include <cstdint>

#include "core/trace.h"

namespace thunder {

/// Bytes that a program keeps.
struct ConstantLimits {
  int64_t value = int64_t{8} << 20;
  int64_t program = int64_t{64} << 20;
};

/// `given`: the part of the trace's output that the caller gets; what is saved for the backward is not among it.
Trace constants_once(const Trace& trace, const Arg& given, ConstantLimits limits = {});

}  // namespace thunder
