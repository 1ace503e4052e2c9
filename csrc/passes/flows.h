// Which outputs' gradients lead to the calls of hooks in a backward.
//
// A program computes with zeros where an output of it is not used.  Eager's graph does not lead there, and its hooks are
// not called, or get None: a hook's call is told which outputs matter to it.
#pragma once

#include "core/trace.h"

namespace thunder {

/// Before gradients are taken: fills in the parameter `flows` of calls in recorded gradients that have one, for each
/// tensor of the parameter `gradients` the bits (passes/reach.h) of the differentiable outputs that depend on what it is
/// the gradient of.
Trace mark_flows(const Trace& trace, const std::vector<size_t>& differentiable);

}  // namespace thunder
