// Which outputs' gradients lead to the calls of hooks in a backward.
//
// A program computes with zeros where an output of it is not used.  Eager's graph does not lead there, and its hooks are
// not called, or get None: a hook's call is told which outputs matter to it.
#pragma once

#include "core/trace.h"

namespace thunder {

/// Fills in the parameter `flows` of calls in recorded gradients, where a call has this parameter; runs before
/// gradients are taken.  `flows` has a bit set (passes/reach.h) for each tensor of the parameter `gradients`: the
/// differentiable outputs that depend on the value whose gradient the tensor is.
Trace mark_flows(const Trace& trace, const std::vector<size_t>& differentiable);

}  // namespace thunder
