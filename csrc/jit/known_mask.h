// The classification of masks that depend on sizes alone.  The compiler computes such a mask once, on the device where
// the program would compute it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "passes/known_masks.h"

namespace thunder {

/// Inputs of a program whose elements are known.
using FixedTensors = std::unordered_map<ValueId, at::Tensor>;
/// From here on the program runs only while nothing is written to these inputs, or what is written passes the check.
using FixedGuard = std::function<void(const std::vector<ValueId>&, std::function<bool(const FixedTensors&)>)>;

/// Classifies masks by making them.  Booleans, and numbers that are 0 where a place is seen and at most -1e9 (in float16
/// its lowest number) elsewhere, are of a kind.  A window is one only if each row sees something.  `on_cpu`: masks are
/// made there, wherever the program runs, as in a simulation.  Other where a GPU's memory does not suffice to make it.
/// A guard on sizes makes the mask once more for each new tuple of sizes.
MaskReader mask_reader(std::shared_ptr<const FixedTensors> tensors, FixedGuard guard_tensors, bool on_cpu);

}  // namespace thunder
