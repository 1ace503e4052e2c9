// What an epilogue does where it only copies results of the computation into inputs that no gradient goes through:
// running statistics, counters, caches of keys and values.
//
// It is done by a few copies of many tensors instead of a call for each, and a graph of the forward may end with it.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/trace.h"
#include "passes/pipeline.h"

namespace thunder {

struct PlainEpilogue {
  using Values = std::vector<c10::IValue>;
  std::vector<std::pair<size_t, size_t>> writes;  ///< from an output into an input
  std::vector<size_t> leaves;                     ///< what the call gives, of the inputs and then the outputs

  /// Of the computation's inputs and flat outputs.  Nothing for an epilogue that does more.
  static std::optional<PlainEpilogue> find(const Trace& epilogue, const std::vector<Value>& inputs,
                                           const std::vector<Value>& outputs);
  static std::optional<PlainEpilogue> find(const Trace& epilogue, const Compiled& computation);

  /// Whether PyTorch would write to these inputs; if not, the epilogue itself says why.
  bool may_write(const Values& inputs) const;
  /// Writes, unless a graph has done it, and gives what the call gives.
  Values finish(Values inputs, Values outputs, bool written) const;
  /// Whether the call gives the output, of so many inputs.
  bool gives(size_t output, size_t inputs) const;
};

}  // namespace thunder
