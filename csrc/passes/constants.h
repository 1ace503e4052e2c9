// Constants made once: calls that depend on no input run once for a program, and their results are kept.
//
// Models make positions, tables and masks of `arange` in every call.  Values between two kernels are kept.  Values within
// a kernel are computed again, since reading them would cost more.
//
// Precondition: calls are claimed and fused.
//
//   t1 = fusion0()                            (t2,) = constants0()
//     # iota, lt, where                         # t1 = fusion0()
//   t2 = cumsum(t1, 0)               -->        # t2 = cumsum(t1, 0)
//   t3 = fusion1(t0, t2)                      t3 = fusion1(t0, t2)
//   return t3                                 return t3
//
// These calls stay: those whose result the caller gets or something writes to, random numbers and other effects, sizes
// that only a run knows, products (the process sets their precision), a user's code, and results that are large, since
// nothing else can use the memory of what is kept.
//
// The executor `constants` runs the call (executors/constants).
#pragma once

#include <cstdint>
#include <functional>

#include "core/trace.h"

namespace thunder {

/// Bytes that a program keeps.
struct ConstantLimits {
  int64_t value = int64_t{8} << 20;
  int64_t program = int64_t{64} << 20;
};

/// `given`: the part of the trace's output that the caller gets; what is saved for the backward is not among it.
/// `is_opaque`: calls of a user's code, which may give or write to its arguments; none: no call is.
Trace constants_once(const Trace& trace, const Arg& given, const std::function<bool(const Call&)>& is_opaque = {},
                     ConstantLimits limits = {});

}  // namespace thunder
