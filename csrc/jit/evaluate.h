// Runs a single operator on real tensors: what a printed program's names call when it is run with exec().
#pragma once

#include <string>

#include "core/trace.h"
#include "frontend/python.h"

namespace thunder {

/// `name`: a registry name with or without overload ("prims.slice"), or an executor's operator.
frontend::Ref evaluate(const std::string& name, PyObject* args, PyObject* kwargs);
/// Runs a trace without inputs.
frontend::Ref evaluate(const Trace& constant);

}  // namespace thunder
