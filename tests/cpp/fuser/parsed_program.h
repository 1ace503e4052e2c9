// Programs by their text, lowered to kernels.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/parse.h"
#include "fuser/lower.h"
#include "ops/families.h"

namespace thunder::test {

/// A program by its text; values go by their printed names.
struct ParsedProgram {
  explicit ParsedProgram(const std::string& body, const std::string& inputs) {
    ops::register_all();
    trace = parse("import thunder.core.prims as prims\n\ndef f(" + inputs + "):\n" + body);
    for (const Call* c : trace.calls) maker[c->output.value().id()] = c;
  }
  std::vector<fuser::Root> roots() const {
    std::vector<fuser::Root> out;
    visit_values(trace.output, [&](Value v) { out.push_back({v, true}); });
    return out;
  }
  /// The returned values are roots, and the reductions among what `also` names.
  std::optional<fuser::Kernel> lower(const fuser::LowerOptions& options = {},
                                     const std::vector<size_t>& also = {}) const {
    std::vector<fuser::Root> all;
    const std::vector<fuser::Root> returned = roots();
    for (size_t i = 0; i < trace.calls.size(); ++i) {
      const Value v = trace.calls[i]->output.value();
      const bool stored =
          std::any_of(returned.begin(), returned.end(), [&](const fuser::Root& r) { return r.value == v; });
      if (stored || std::find(also.begin(), also.end(), i) != also.end()) all.push_back({v, stored});
    }
    auto producer = [this](Value v) -> const Call* {
      auto it = maker.find(v.id());
      return it == maker.end() ? nullptr : it->second;
    };
    return fuser::lower(
        all, producer, [](Value) { return false; }, options);
  }

  Trace trace;
  std::map<ValueId, const Call*> maker;
};

}  // namespace thunder::test
