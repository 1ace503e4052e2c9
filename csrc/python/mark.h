// The mark of the exceptions that the compiler itself raises, by which it tells them from the program's own.
//
// It is an attribute of the exception object, so the exception's class is the one that PyTorch would raise.
// thunder/_marks.py sets it in Python.
#pragma once

#include <optional>

#include "python/errors.h"

namespace thunder {

enum class Mark {
  Compiler,     ///< the compiler or one of its operators; a NotImplementedError refuses what the program asks for
  SharpEdge,    ///< the interpreter, of a call whose effect only the compilation would have
  OutOfBounds,  ///< the compiler's, of an index that no element has
  Internal,     ///< the compiler's, of itself
};

/// Marks the exception that Python's error indicator holds.
void mark_error(Mark mark);
/// Nothing for an exception that the compiler did not raise.
std::optional<Mark> mark_of(const Raised& raised);

}  // namespace thunder
