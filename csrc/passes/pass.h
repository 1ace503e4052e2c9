// Running a pass: timing, provenance, verification, dumping, bisecting; so that no pass repeats them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/trace.h"

namespace thunder {

struct PassOptions {
  bool verify = false;          ///< verify every trace that a pass returns (THUNDER_VERIFY=1, and in all tests)
  std::string dump;             ///< a folder into which every trace is written (THUNDER_DUMP=folder); empty: none
  std::vector<std::string> skip;  ///< optional passes not to run, by name (THUNDER_SKIP=cse,...)
  int bisect = -1;              ///< run only the first n optional passes (THUNDER_BISECT=n); -1: all
  static PassOptions from_environment();
};

/// The traces that a compilation made, in order.
using TraceHistory = std::vector<Trace>;

/// Runs `pass` on `trace`, stamps its provenance ("Common Subexpression Elimination (took 3 milliseconds)"), verifies, dumps,
/// and appends the result to `history`.  `required` passes are neither skipped nor bisected.
Trace run_pass(const std::string& name, const Trace& trace, const std::function<Trace(const Trace&)>& pass,
               const PassOptions& options, TraceHistory* history, bool required = false);

}  // namespace thunder
