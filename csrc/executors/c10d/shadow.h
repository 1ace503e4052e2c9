// What a process that has no more data does while the others run programs of a plan: it takes part in their
// collectives, in the plan's order, with its own rows and gradients of zeros.  It has neither inputs nor a program.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "passes/distributed/plan.h"

namespace thunder {

/// Blocks until all processes of the group have come (gloo), or makes the stream wait for them (NCCL).
at::Tensor all_reduced(const std::string& group, const at::Tensor& t, const std::string& op, const std::string& what);

/// The collectives of a forward, in a plan whose order is known.
void shadow_forward(const distributed::CommunicationPlan& plan);

/// Those of a backward.  Gradients that this process has kept within no_sync() are reduced in it.  Gives the means, by
/// the parameters' indices, of the parameters that some process has used, if `gradients`.
std::vector<std::pair<size_t, at::Tensor>> shadow_backward(const distributed::CommunicationPlan& plan, bool gradients);

}  // namespace thunder
