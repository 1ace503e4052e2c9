// Running a pass: timing, provenance, verification, dumping, bisecting; so that no pass repeats them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/trace.h"

namespace thunder {

/// A pass's short name, by which it is skipped and its dump is called, and the title that its traces carry.
struct PassName {
  PassName(const char* name) : id(name), title(name) {}
  PassName(std::string name) : id(name), title(std::move(name)) {}
  PassName(std::string id_, std::string title_) : id(std::move(id_)), title(std::move(title_)) {}
  std::string id;     ///< "cse"
  std::string title;  ///< "Common Subexpression Elimination"
};

struct PassOptions {
  bool verify = false;            ///< verify every trace that a pass returns (THUNDER_VERIFY=1, and in all tests)
  std::string dump;               ///< a folder into which every trace is written (THUNDER_DUMP=folder); empty: none
  std::vector<std::string> skip;  ///< optional passes not to run, by id or title (THUNDER_SKIP=cse,...)
  int bisect = -1;                ///< run only the first n optional passes (THUNDER_BISECT=n); -1: all
  /// How many optional passes were asked for so far; shared by all copies, so that `bisect` counts over a whole
  /// process.
  std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);
  /// Error (Value) where a variable's text is not what it should be.
  static PassOptions from_environment();
};

/// The traces that a compilation made, in order.
using TraceHistory = std::vector<Trace>;

/// Runs `pass` on `trace`, stamps its provenance ("Common Subexpression Elimination (took 3 milliseconds)"), verifies,
/// dumps, and appends the result to `history`.  `required` passes are neither skipped nor bisected.  An internal error
/// that the verifier finds says which pass made the trace.
Trace run_pass(const PassName& name, const Trace& trace, const std::function<Trace(const Trace&)>& pass,
               const PassOptions& options, TraceHistory* history, bool required = false);

}  // namespace thunder
