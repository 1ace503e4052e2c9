// What the last compilation of a function left for inspection.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/cache_entry.h"
#include "jit/float8.h"
#include "passes/pipeline.h"
#include "runtime/autograd.h"

namespace thunder {

/// Seconds of the parts of one compilation.
struct CompileTimes {
  double acquisition = 0, passes = 0, programs = 0;
};

/// The traces of one compilation.
struct CompileRecord {
  Compiled compiled;
  Trace epilogue;
  bool trivial_epilogue = true;
  CompileTimes times;
  Float8Layers float8;
};

/// Why a program serves no later call.
struct Keeping {
  std::optional<std::string> once;      ///< why it cannot be acquired a second time
  std::optional<std::string> not_kept;  ///< why it is good for its call only, though it may be acquired once more
  bool for_later() const { return !once && !not_kept; }
  const std::optional<std::string>& why() const { return once ? once : not_kept; }
};

/// An Inspection owns the record and the texts, which stay until the next program is compiled.
struct Inspection {
  std::shared_ptr<const CompileRecord> record;  ///< null before the first program
  std::shared_ptr<const Programs> programs;     ///< null before the first that runs
  /// What the program asked about sizes and numbers, which calls must agree with to run it.
  std::vector<std::string> number_guards;
  std::vector<std::string> symbols;  ///< "s0: size 1 of tensor argument 0"
  std::string not_symbolic;          ///< why it has no symbols though they were asked for; empty if it has
  Keeping keeping;

  /// Within the environment that made the entry's symbols.
  void take(std::shared_ptr<const CompileRecord> of, const CacheEntry& e);
  /// The instructions of the programs, a line each.
  std::string program_text() const;
};

}  // namespace thunder
