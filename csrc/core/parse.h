// Reads a printed trace back: parse(print(t), context) is structurally equal to t.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/trace.h"

namespace thunder {

/// `context` gives the opaque objects by name (python_context of the trace that was printed).
/// Error (Value) names the line of `text` that is not understood.
Trace parse(std::string_view text, const std::map<std::string, std::shared_ptr<void>>& context = {});

/// Same operators, arguments, full types and bodies, up to a renaming of values.  `why` names the first difference.
bool structurally_equal(const Trace& a, const Trace& b, std::string* why = nullptr);

}  // namespace thunder
