// Warnings to the user from layers that know neither Python nor PyTorch.
#pragma once

#include <string>

namespace thunder {

/// Warns with `message`, once in the life of the process for each `topic`: a folder that cannot be written is one
/// warning and not one for each kernel.  Must not be called with a lock held, because the handler may wait for the GIL
/// and may throw (a Python warning turned into an error).
void warn_once(const std::string& topic, const std::string& message);

/// Who shows a warning; stderr until somebody is set.  The extension sets Python's `warnings`.
using WarningHandler = void (*)(const std::string& message);
/// Returns the handler before.
WarningHandler set_warning_handler(WarningHandler handler);

}  // namespace thunder
