// What a compilation has to do with distributed parameters.
#pragma once

#include "frontend/tracer.h"
#include "passes/distributed/plan.h"
#include "passes/pipeline.h"
#include "runtime/distributed/placements.h"

namespace thunder {

struct DistributedInputs {
  distributed::Distribution distribution;
  /// Per input of the program; null for what is no parameter of the plan, and no DTensor's part.  Empty if there is
  /// neither.
  std::vector<std::shared_ptr<const distributed::Placement>> placements;
};

/// Finds the parameters of a plan among what the program takes.  Those that it does not take become sources as well,
/// behind the others, and inputs of the epilogue.
/// Error (NotImplemented) names a sharded parameter that the program returns or writes to, or parameters of two plans.
DistributedInputs find_distributed(frontend::Acquired& acquired);

/// Why the program cannot stand for the function: a DTensor's part that it takes leaves it as it is.  Empty: none does.
std::string part_that_leaves(const frontend::Acquired& acquired);

/// Raises what the module's DistributedState does where a parameter of the plan is no parameter of the module any more.
void check_parameters(PyObject* module);

/// Runs `compile`.  If that sets an order of the plan's, that of the process `first` is that of all, and a process with
/// another one runs `compile` again.
Compiled compile_in_agreement(const distributed::Distribution& d, const std::function<Compiled()>& compile);

/// Error (NotImplemented) if processes without data, within join(), do not know of the call.
void check_told(const distributed::CommunicationPlan& plan);

/// What a call of the module does beside gathering parameters.
struct CallOfModule {
  bool differentiates;  ///< it has a backward
  bool reduces;         ///< which reduces gradients
};
/// Whether the plan has the orders that a call of the module sets or follows.
bool knows_order(const distributed::CommunicationPlan& plan, const CallOfModule& call);
/// For a process that compiles nothing: takes them from the process `first`, which compiles.
void await_order(distributed::CommunicationPlan& plan, const CallOfModule& call);

}  // namespace thunder
