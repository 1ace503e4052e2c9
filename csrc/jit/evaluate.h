// Runs a single operator on real tensors: what a printed program's names call when it is run with exec().
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "core/trace.h"
#include "frontend/value_reads.h"
#include "python/ref.h"
#include "runtime/program.h"

namespace thunder {

/// `name`: a registry name with or without overload ("prims.slice"), or an executor's operator.
Ref evaluate(const std::string& name, PyObject* args, PyObject* kwargs);
/// Runs a trace without inputs.
Ref evaluate(const Trace& constant);
/// Runs a program apart from autograd and from what is being traced.
std::vector<c10::IValue> run_below_autograd(const Program& program, std::vector<c10::IValue> inputs);
/// Runs a trace whose output is a tuple: its results.
std::vector<Ref> run_now(const Trace& trace, const std::vector<frontend::RealInput>& inputs);
/// What a program is given for such an input.
c10::IValue program_input(PyObject* object, bool whole_storage);
/// A program that runs the calls one by one, by PyTorch's operators where no other executor's stand there already.
std::shared_ptr<Program> plain_program(const Trace& trace);

}  // namespace thunder
