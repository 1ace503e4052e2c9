// The layout of attention: query and key are handed over as [batch, sequence, heads, size] lies in memory.
//
// Purpose       Attention kernels lay their output out as the query.  Programs merge the heads of the output right
//               behind it, which is a view if the heads lie inside the sequence, and a copy if they lie outside, as
//               after torch.cat of a rotary embedding.  So do the gradients of query and key, which the backward merges
//               again.
// Precondition  A functional trace.  A fusion executor stands in the list: what makes the query then writes it in any
//               layout at no cost.
//
//   q = ltorch.cat([q1, q0], -1)                                  # [2, 4, 32, 16], contiguous
//   t0 = ltorch.scaled_dot_product_attention(q, k, v)
//   t1 = ltorch.transpose(t0, 1, 2)
//   t2 = ltorch.reshape(t1, [2, 32, 64])                          # copies
//     -->
//   q = ltorch.cat([q1, q0], -1)
//   t3 = prims.restride(q, [2048, 16, 64, 1])
//   t4 = ltorch.scaled_dot_product_attention(t3, k, v)
//   t5 = ltorch.transpose(t4, 1, 2)
//   t6 = ltorch.reshape(t5, [2, 32, 64])                          # a view
//
// A contiguous copy in front of attention is left out where its source has the heads inside, and so is one behind it.
//
// A value that is a small part of a larger tensor (the joint projection of query, key and value) is copied as well if
// gradients flow: saved for the backward it would keep all of that tensor.
//
// It is left alone unless all that reads the output are such transposes, read by nothing but reshapes (of
// contiguous copies) that merge the heads: the caller never sees another layout than eager's.
#pragma once

#include "core/trace.h"

namespace thunder {

Trace attention_layout(const Trace& trace);

}  // namespace thunder
