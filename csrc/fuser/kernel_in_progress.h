// What the parts of lowering (lower.cpp) share while they make one kernel.
#pragma once

#include "fuser/condition.h"
#include "fuser/statements.h"

namespace thunder::fuser {

struct KernelInProgress {
  KernelInProgress(const LowerOptions& options, Places& places, Kernel& kernel)
      : options(options), places(places), indices(places.indices()), kernel(kernel), statements(places, kernel) {}

  const LowerOptions& options;
  Places& places;
  Indices& indices;
  Kernel& kernel;
  Statements statements;
  Condition condition;
};

}  // namespace thunder::fuser
