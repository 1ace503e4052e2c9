// Long rows: reductions of most of a GPU's tensor (the mean of a loss over images) in two steps.
//
// Purpose       A kernel gives each row that it sums up to one block of threads.  Few rows of very many elements would
//               leave most of the GPU idle, for as long as one block takes to walk over all of them.
// Precondition  A call of which kind_of() says Reduce.
//
//   t1 = prims.sum(t0, [0, 1])                           # t0: f32[4096, 4096], t1: f32[]
//     -->
//   t2 = prims.view(t0, [1024, 16384])
//   t3 = prims.sum(t2, [1])
//   t1 = prims.sum(t3, [0])
//
// Dimensions are permuted first where that is how they lie in memory, and a row that cannot be divided evenly is padded
// with what changes nothing.
#pragma once

#include <memory>
#include <vector>

#include "core/builder.h"
#include "core/trace.h"

namespace thunder::fuser {

/// Whether one block of threads would take long for each row of a reduction, or of a variance.
bool has_long_rows(const Call& reduction);
/// The calls in its place; none where a row can be neither divided nor padded.
std::vector<const Call*> in_two_steps(const Call& reduction, const std::shared_ptr<Arena>& arena);
/// The calls of `b`, which make `partial`, and the reduction of its last dimensions, behind those of the result.
std::vector<const Call*> with_second_step(Builder& b, const Call& reduction, const Expr& partial);

}  // namespace thunder::fuser
