// Linear layers in float8: products of chosen weights read 8-bit operands, in the forward and for the gradients.
//
// Purpose       A GPU multiplies float8 matrices twice as fast as 16-bit ones.  What is rounded is the operands of the
//               products alone: weights, their gradients and everything between the layers keep their types.
// Precondition  The program as it was acquired, on the level of the torch records, before gradients are taken.
//
//   t0 = ltorch.linear(x, w, b)
//     -->
//   t1 = ltorch.float8_amax(x)
//   t2 = ltorch.float8_scale(t1, torch.float8_e4m3fn)
//   t3 = ltorch.float8_cast(x, t2, torch.float8_e4m3fn)
//   t4 = ltorch.float8_transposed(t3)                          # the same for w: t5, ..., t8
//   t0 = ltorch.float8_linear(x, w, b, t3, t4, t7, t8, t2, t6)
//
// With delayed scaling scales follow from the maxima that earlier backwards have put into a history:
//
//   s = prims.float8_scales(history)
//   t2 = ltorch.select(s, 0, 0)
//   t0 = ltorch.float8_linear(..., grad_scale=t9, history=history, maxima=[t1, t5], places=[0, 1, 2])
//
// A tensor that several layers read is cast once.  What only gradients need is dead code where there are none.  Calls of
// torch.addmm with the weight as the second matrix (Hugging Face's Conv1D) are the same with the weight transposed.
#pragma once

#include <string>
#include <vector>

#include "core/trace.h"

namespace thunder {

/// A layer that may be in float8: the input of the program that is its weight.
struct Float8Layer {
  std::string name;
  Value weight;
  int64_t number = 0;  ///< in the history
};

struct Float8Options {
  std::vector<Float8Layer> layers;
  bool keeps_last = false;  ///< the program's last linear layer stays as it is
  Value history = {};       ///< an input into which backwards put maxima (prims.float8_record); none: nothing is kept
  bool delayed = false;     ///< scales follow from the history
};

/// For each layer why it is not in float8; empty for those whose products the pass changes.
std::vector<std::string> float8_refusals(const Trace& trace, const Float8Options& options);

Trace float8(const Trace& trace, const Float8Options& options);

/// All that a joint trace puts into a history as one call, at its end: a few operators for a program, not for each layer.
///
///   prims.float8_record(h, [t1, t2, t3], [0, 1, 2])
///   prims.float8_record(h, [t1, t5, t6], [0, 4, 5])
///     -->
///   prims.float8_record(h, [t1, t2, t3, t5, t6], [0, 1, 2, 4, 5])
Trace float8_records(const Trace& trace);

}  // namespace thunder
