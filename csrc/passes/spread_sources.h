// Spread sources: the backward's broadcasts read what the forward's read, and what both compute of them is one value.
//
// A norm's gradient reads mean and deviation by another name and with another dimension of size 1 than the norm itself.
// Two broadcasts of the same numbers are two normalized inputs, which are stored twice where several kernels read them.
//
//   t1 = prims.broadcast_in_dim(mean, [64, 768], [0])    # the forward's
//   t2 = prims.sub(x, t1)
//   t3 = prims.view(mean, [64, 1])
//   t4 = prims.detach(t3)
//   t5 = prims.broadcast_in_dim(t4, [64, 768], [0, 1])   # the backward's
//   t6 = prims.sub(x, t5)
//     -->
//   t1 = prims.broadcast_in_dim(mean, [64, 768], [0])
//   t2 = prims.sub(x, t1)                                # t6, too
//
// Precondition: gradients are taken, so that a detached value is as good as its source, and composites are opened.
#pragma once

#include "core/trace.h"

namespace thunder {

/// A joint trace; its first `forward_calls` calls stay as they are.
Trace spread_sources(const Trace& trace, size_t forward_calls);

}  // namespace thunder
