// Partitioning in tests: every kernel becomes an operator without an executor's machinery behind it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fuser/partition.h"

namespace thunder::test {

/// A kernel of a partitioned program: its call, and what was made of it while it could be lowered.
struct Fused {
  const Op* op = nullptr;
  std::vector<fuser::Root> roots;
  std::vector<const Call*> calls;
  std::vector<Value> inputs, outputs;
  fuser::Kernel plain;                 ///< one lane
  std::vector<fuser::Kernel> lowered;  ///< by the options that were asked for, those that lower
};

struct Partitioned {
  Trace trace;
  std::vector<Fused> fusions;
  const Fused* find(const Op* op) const;
};

/// Operators are named fusion0, fusion1, ... in the order in which they are made.  `single`: one operator's work, too.
Partitioned partitioned(const Trace& trace, const std::vector<fuser::LowerOptions>& options = {},
                        const std::function<bool(const fuser::Fusion&)>& take = {}, bool single = false);

/// The calls as one program from the kernel's inputs to its outputs.
Trace program_of(const Fused& fusion, const std::shared_ptr<Arena>& arena);

}  // namespace thunder::test
