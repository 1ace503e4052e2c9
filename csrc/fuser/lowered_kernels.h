// Kernels of one program that have been lowered already.
//
// The partitioner and the targets lower a group of calls several times, with other options or with another group beside
// it, and programs repeat their layers: most groups of calls are equal to one before, in everything that lower() reads.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fuser/lower.h"

namespace thunder::fuser {

class LoweredKernels {
 public:
  /// What fuser::lower() gives for the same arguments.
  std::optional<Kernel> lower(const std::vector<Root>& roots, const Producer& producer,
                              const Materialized& materialized, const LowerOptions& options);
  /// How many calls of lower() were answered by an earlier one, and how many were not.
  size_t found() const { return found_; }
  size_t made() const { return made_; }

 private:
  struct Known {
    LowerOptions options;
    std::optional<Kernel> kernel;
    /// The places, in the order in which the group's values are met, of those that the kernel names.
    std::vector<size_t> inputs, outputs, calls;
  };

  std::unordered_map<std::string, std::vector<Known>> known_;  // by a text of the group
  size_t found_ = 0, made_ = 0;
};

}  // namespace thunder::fuser
