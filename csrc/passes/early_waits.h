// Early waits: what the host waits for, and that needs little but inputs, is computed first.
//
// The number of places where a mask holds (nonzero) is known when the device has computed it.  In the middle of a program
// the host waits for all that stands before, and the device then for the host, which issues the rest.  At the beginning
// the host waits for little.
//
//   t1 = matmul(x, w)                                     t2 = ge(labels, 0)
//   t2 = ge(labels, 0)                             -->    t3 = nonzero(t2)
//   t3 = nonzero(t2)                                      t1 = matmul(x, w)
//   t4 = index_select(t1, 0, squeeze(t3))                 t4 = index_select(t1, 0, squeeze(t3))
//
// Precondition: none.  A wait stays where it is if it needs more than a few calls, more than some memory, composites, or
// a gathered parameter; if the program writes, draws or communicates before it, as the user's code says; or if its
// tensors are the host's.
#pragma once

#include "core/trace.h"

namespace thunder {

/// Whether the host waits for a GPU anywhere.
bool waits_on_gpu(const Trace& trace);
Trace early_waits(const Trace& trace);

}  // namespace thunder
