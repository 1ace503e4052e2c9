// Reads a printed trace back: parse(print(t), context) is structurally equal to t.
//
// Text may also be written by hand: arguments are bound as a call's would be, every value needs its annotation
// somewhere, and a composite its body.  A comment below a call is its body; a remark begins with `##`.
// `# n: "int s0=5"` gives a symbol a hint.  A callee that no operator prints as, but that has a body, becomes an
// operator of the trace's own (a fusion region).
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

/// Same operators, arguments, full types and bodies, up to a renaming of values and symbols.  `why` names the first
/// difference.  An int value that binds a symbolic size counts as equal to that size: they print alike.  Operators
/// outside the registry are compared by their printed names.
bool structurally_equal(const Trace& a, const Trace& b, std::string* why = nullptr);

}  // namespace thunder
