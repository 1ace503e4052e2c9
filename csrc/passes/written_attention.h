// Written attention: the two products and the softmax of a program that writes attention out become one call of it.
//
// Purpose       Kernels for attention keep the scores on the chip.  A program that writes attention out (a product, a
//               scale, a mask, a softmax, a product) moves the scores through memory several times and saves them for the
//               backward.
// Precondition  Before the other passes of attention, which look for whole calls.  No gradient has been taken.
//
//   t0 = ltorch.matmul(q, ltorch.transpose(k, -2, -1))     # [2, 4, 256, 256]
//   t1 = ltorch.mul(t0, 0.125)
//   t2 = ltorch.where(seen, t1, float('-inf'))
//   t3 = ltorch.softmax(t2, -1)
//   t4 = ltorch.matmul(t3, v)
//     -->
//   t4 = ltorch.scaled_dot_product_attention(q, k, v, seen, 0.0, False, scale=0.125)
//
// The calls are matched as primitives, so that every spelling (masked_fill, bmm, einsum) is the same.  A mask that hides
// by a finite number becomes a mask of numbers: a row that sees nothing is the mean of all values, as it is written.
// Several masks become one.
//
// Left alone is attention that no executor takes whole; one that is short (fewer than 128 keys); one whose scores or
// weights another call reads, or the caller; one with dropout, or with a mask that requires a gradient; a float32 mask
// beside 16-bit operands, unless each of its numbers is known to be 0 or large: kernels add masks in the operands' type.
#pragma once

#include "core/trace.h"
#include "passes/executor.h"
#include "passes/known_masks.h"

namespace thunder {

Trace written_attention(const Trace& trace, const ExecutorList& executors, const MaskReader& reader = {});

}  // namespace thunder
