// Grouped heads in attention: undoes the expansion of key and value heads in front of scaled_dot_product_attention.
//
// Programs repeat each key and value head for the query heads that it serves (repeat_interleave, or unsqueeze, expand
// and reshape), because a plain matrix product needs it.  Attention kernels that know grouped heads read the small key
// and value and give small gradients: no expanded copies, and no sums of their gradients.
//
//   k1 = ltorch.repeat_interleave(k, 4, 1)
//   v1 = ltorch.reshape(ltorch.expand(v[:, :, None], [2, 2, 4, 5, 16]), [2, 8, 5, 16])
//   t0 = ltorch.scaled_dot_product_attention(q, k1, v1, is_causal=True)
//     -->
//   t0 = ltorch.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
//
// What no one else reads of the expansion is dead code afterwards.
#pragma once

#include "passes/executor.h"

namespace thunder {

/// Rewrites a call only if the executor that takes the expanded call, or one before it in the list, takes the grouped
/// one whole; an executor that takes it knows grouped heads.  Key and value must be expanded alike, and the expansion
/// must carry the gradient (one made under no_grad stays).
Trace group_heads(const Trace& trace, const ExecutorList& executors);

}  // namespace thunder
