// Complex parts: arithmetic of complex numbers becomes arithmetic of real and imaginary parts.
//
// Purpose       Rotary embeddings are often written with complex numbers, and models of sequences and spectra compute
//               with them.  A fused kernel computes with real numbers only.  An operator on complex numbers is a kernel of
//               ATen's, which reads and writes all of them.  Their parts are fused with what stands around them.
// Precondition  Any functional trace; gradients are taken.  A fusion executor stands in the list.
//
//   z = prims.view_as_complex(x)                             # x: [2, 64, 8, 32, 2] f32
//   t0 = ltorch.mul(z, w)                                    # w: c64[64, 1, 32], an input
//   t1 = prims.view_as_real(t0)
//     -->
//   a, b = x[..., 0], x[..., 1]                              # prims.slice and prims.squeeze
//   c, d = w_pairs[..., 0], w_pairs[..., 1]                  # w_pairs = prims.view_as_real(w), both broadcast
//   t1 = prims.cat([(a * c - b * d)[..., None], (a * d + b * c)[..., None]], 4)
//
// Products and quotients have the formulas of c10::complex, so that infinities and NaNs become what eager makes of them.
// A complex value that another call reads, or that the program returns, is made of its parts once.
//
// Left alone are operators without a rule here (products of matrices, Fourier transforms, comparisons), calls that an
// executor other than the last ones takes whole, complex numbers of 16-bit parts, and views that the program returns,
// with the views that they are made of.  A single operator between operators that stay is left alone as well: a kernel of
// parts would gain nothing there.
#pragma once

#include <cstddef>

#include "passes/executor.h"

namespace thunder {

/// `boundary`: a number of calls at the trace's begin; as many as they are then.
Trace complex_parts(const Trace& trace, size_t& boundary, const ExecutorList& executors);

}  // namespace thunder
