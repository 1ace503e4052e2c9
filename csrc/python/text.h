// Python's strings in C++.
#pragma once

#include <string>

#include "python/ref.h"

namespace thunder {

/// A str in UTF-8.  PythonError, a UnicodeEncodeError, for a lone surrogate: for text that Python gets back.
std::string utf8(PyObject* str);

/// A str in UTF-8, lone surrogates as `\udc80`: for names, file names and messages, which the user may give any.
/// Nothing is raised.
std::string printable(PyObject* str);

}  // namespace thunder
