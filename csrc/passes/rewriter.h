// Walks a trace's calls in order while values are replaced by others, and keeps the types honest: a call whose input
// was replaced by a tensor of another layout is made again, so that its own outputs' layouts, and whether a view of
// them needs a copy, follow.  A call that finds lengths in values keeps them, and reads a copy in the layout that it had.
#pragma once

#include <vector>

#include "core/builder.h"
#include "core/rewrite.h"
#include "passes/visit.h"

namespace thunder {

class Rewriter {
 public:
  explicit Rewriter(const Trace& trace) : builder(trace.arena), trace_(trace) {
    for (Value v : trace.inputs) builder.add_input(v);
  }

  Builder builder;

  /// From here on, `to` stands for `from`.
  void replace(Value from, const Arg& to);
  /// The same for all values of an output, in order.  Error (Value) if there are not as many, or a dtype or shape
  /// differs.
  void replace_outputs(const Call& call, const Arg& results, const std::string& who);

  /// The call after all replacements: usually one, the same node if nothing it reads was replaced; several or none if
  /// it had to be made again.
  std::vector<const Call*> current(const Call* call);
  /// The argument after all replacements.
  Arg current(const Arg& arg) const { return map_(arg); }

  /// Runs `make` and returns the calls it made, located at the user's line of `origin`.
  template <class F>
  std::vector<const Call*> collect(const Call& origin, F&& make) {
    const SourceLocation* before = builder.location();
    builder.set_location(origin.location);
    builder.open_scope();
    try {
      make();
    } catch (...) {
      builder.close_scope();
      builder.set_location(before);
      throw;
    }
    builder.set_location(before);
    return builder.close_scope();
  }

  /// What the builder has collected, as a trace with the outputs replaced.
  Trace finish();

 private:
  std::vector<const Call*> with_layouts_of(const Call& call);

  const Trace& trace_;
  Substitution map_;
  ValueMap<char> replaced_;  // 1: by a value of the same type, 2: of another
};

}  // namespace thunder
