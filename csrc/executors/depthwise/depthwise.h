// Depthwise convolutions over two dimensions on NVIDIA GPUs, forward and backward, for images that lie channels last.
//
// Takes torch.convolution and torch.convolution_backward where each channel has a filter of its own: up to 7 x 7, with
// strides of 1 or 2 and no dilation, in float32, float16 and bfloat16.  cuDNN's gradients of the input take two to four
// times as long, and it compiles a kernel for each shape in the first step, one after the other; ATen's kernels for
// images that lie channels first take four to eight times as long.  Sums are in float32, and their order does not
// depend on timing.
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition depthwise_executor();

}  // namespace thunder
