// Which outputs depend on which inputs, as autograd's graph of the program would say.
//
// PyTorch leaves `.grad` None where no output that is used depends on a leaf; a compiled function, one node of
// autograd's, has to know.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/trace.h"

namespace thunder {

/// The bit of the k-th differentiable output; those from the 64th on share one.
inline uint64_t reach_bit(size_t k) { return 1ull << std::min<size_t>(k, 63); }

/// For values of the trace the bits of the outputs (`differentiable`: their indices) to which a gradient's way leads from
/// them; those from which none does are left out.
std::unordered_map<Value, uint64_t, ValueHash> reached_from_values(const Trace& trace,
                                                                   const std::vector<size_t>& differentiable);
/// The same for each input of the trace.
std::vector<uint64_t> reached_outputs(const Trace& trace, const std::vector<size_t>& differentiable);

}  // namespace thunder
