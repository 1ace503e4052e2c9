// Sums of slices by an index (prims.group_index, prims.segment_sum), one ATen operator after the other: for where the
// executor `rows` does not run them. And the largest of an embedding's bags, by PyTorch's operator.
#pragma once

#include "executors/aten/own_functions.h"

namespace thunder::aten {

c10::IValue group_index(const FunctionArgs& a);
c10::IValue segment_sum(const FunctionArgs& a);
c10::IValue embedding_bag_max(const FunctionArgs& a);

}  // namespace thunder::aten
