// Random numbers by counting.
//
// Purpose       A draw becomes a function of a state (seed and offset) and of each element's place, so that kernels
//               compute the numbers where they are used, and the backward computes them again instead of keeping them.
//               The states are drawn from the device's generator, all at once, where the first of them is needed.
// Precondition  The acquired trace: before autodiff, so that the gradients are those of the new calls.
// Method        `uniform`, `normal`, `randint`, `bernoulli`, `bernoulli_like` and `native_dropout` of constant sizes are
//               replaced; composites that hold them are opened.  What stays as it is, and draws as eager does: a
//               composite that holds another draw, one with a gradient rule of its own, and a call that an executor
//               before the first fusion executor takes.
//
//                                                       [t3] = prims.rng_states(1, "cpu")
//   t2 = torch.nn.functional.dropout(t0, 0.1)     ->    t4 = prims.uniform_at(t3, [8, 64], dtype=torch.float32)
//                                                       t5 = prims.lt(t4, 0.9)
//                                                       ...
#pragma once

#include "passes/executor.h"

namespace thunder {

/// Whether the call seeds a generator, or reads or sets its state.
bool changes_generator(const Call& call);

Trace counted_random(const Trace& trace, const ExecutorList& executors);

}  // namespace thunder
