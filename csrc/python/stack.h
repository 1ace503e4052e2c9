// The end of this thread's stack.
#pragma once

namespace thunder {

/// Whether this thread's stack ends soon.  CPython counts its own frames, and no other's.
bool stack_ends();

/// PythonError, a RecursionError, where this thread's stack ends soon: for walks as deep as the user's objects.
void check_stack();

}  // namespace thunder
