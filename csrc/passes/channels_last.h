// Channels last: images between convolutions lie with their channels innermost.
//
// Purpose       Convolutions of 16 bits read and write channels last on tensor cores.  For an image that lies otherwise
//               cuDNN converts operands and results around each of them, forward and backward.
// Precondition  Before autodiff, so that gradients are laid out alike.  A fusion executor stands in the list: what makes
//               an image then writes it in any layout at no cost.
//
//   t1 = ltorch.conv2d(t0, w1)          # t0: bf16[128, 64, 56, 56]
//   t2 = ltorch.relu(t1)
//   t3 = ltorch.conv2d(t2, w2)
//     -->
//   t4 = prims.restride(t0, [200704, 1, 3584, 64])
//   t5 = prims.restride(w1, [576, 1, 192, 64])
//   t6 = ltorch.conv2d(t4, t5)          # channels last, as all that follows
//   t7 = ltorch.relu(t6)
//   ...
//
// The pass is for programs of convolutions over two or three dimensions, also transposed ones, in float16 or bfloat16 on
// a GPU.  Calls whose result depends on the layout read the image as it was, and so does the caller.  Where that would
// happen often the program stays as it is; so it does where a grouped convolution stands between, for which ATen's
// kernels want the other layout and no other executor takes this one.  A group norm, whose result PyTorch lays out by
// rows, becomes one whose result lies as the image; an instance norm without running statistics becomes a norm of groups
// of one channel.
#pragma once

#include "core/trace.h"
#include "passes/executor.h"

namespace thunder {

Trace channels_last(const Trace& trace, const ExecutorList& executors);

/// Copies each gradient that lies channels last into the layout of its input, where that input has four or five
/// dimensions and lies otherwise.  Autograd would make this copy itself; here the kernel that makes the gradient can
/// write the other layout at once.
Trace gradients_as_inputs(const Trace& joint);

}  // namespace thunder
