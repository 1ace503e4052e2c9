// What a call of a scheduled trace computes, moves and occupies.
#pragma once

#include "core/trace.h"
#include "passes/distributed/cost_table.h"

namespace thunder::distributed {

/// Bytes of the tensor's elements, those that lie in one place counted once; of a future, of all its tensors; 0 for
/// other values.  Error (NotImplemented) for a size that only a run can tell.
int64_t bytes_of(const Type& type);

struct Work {
  double flops = 0;
  Arithmetic kind = Arithmetic::Product;
  DType dtype = DType::f32;  ///< of what is multiplied
  int64_t bytes = 0;         ///< read and written
};

/// Matrix products, convolutions and attention by their shapes; of all else the bytes alone.
Work work_of(const Call& call);

/// Whether a call runs no kernel: a view, `del`, a start, a wait, a gradient that is passed on.
bool runs_nothing(const Call& call);

}  // namespace thunder::distributed
