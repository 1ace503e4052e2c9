// Sums of slices by an index, on the CPU and on NVIDIA GPUs: prims.group_index and prims.segment_sum.
//
// On a GPU indices are sorted (by comparing all with all where they are few, else by PyTorch's radix sort), and one
// kernel adds up each segment in the order of its places, so that the result is the same each time.
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition rows_executor();

}  // namespace thunder
