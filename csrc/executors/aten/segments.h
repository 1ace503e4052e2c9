// Sums of slices by an index (prims.group_index, prims.segment_sum), one ATen operator after the other: for where the
// executor `rows` does not run them. And the largest of an embedding's bags, by PyTorch's operator.
#pragma once

#include "executors/aten/kernels.h"

namespace thunder::aten {

c10::IValue group_index(const KernelArgs& a);
c10::IValue segment_sum(const KernelArgs& a);
c10::IValue embedding_bag_max(const KernelArgs& a);

}  // namespace thunder::aten
