// Python's integers beyond int64 among an operator's arguments.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/value.h"
#include "python/ref.h"

namespace thunder::frontend {

bool is_beyond_int64(PyObject* o);
/// Of 2^63 and more, and below 2^64: PyTorch takes it for a uint64.
bool is_large_int(PyObject* o);
/// Puts what PyTorch makes of the large integers among `args` and `kwargs` into their places: beside a tensor of
/// integers the int64 of the same bits, beside one of other numbers a float.  Error where PyTorch refuses them.
void take_large_ints(const std::string& op, PyObject* args, PyObject* kwargs, ArgList& positional,
                     std::vector<std::pair<std::string, Arg>>& keyword);

}  // namespace thunder::frontend
