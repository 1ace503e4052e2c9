// Between registers of a Program and Python objects.  All functions need the GIL.
//
// Convention for Python objects held by records and traces: `Op::context_owner` of an operator implemented in Python
// and `OpaqueArg::object` are shared_ptr<void> whose get() is the PyObject* itself, made by hold_python().
#pragma once

#include <ATen/core/ivalue.h>
#include <Python.h>

#include <memory>

#include "core/value.h"

namespace thunder {

/// Owns a reference; whoever drops the last copy takes the GIL to release it.
std::shared_ptr<void> hold_python(PyObject* borrowed);

/// New reference.  Tensors, numbers, None, strings, devices, lists, tuples; Python objects as they came.
/// Null with a Python error set if there is no such object.
PyObject* to_python(const c10::IValue& value);
/// The reverse; anything that is none of these is carried as it is.
c10::IValue from_python(PyObject* borrowed);
/// A literal of a trace as the Python object that it prints as (torch.float32, slice(0, 2)).  New reference, or null
/// with a Python error set.
PyObject* literal_to_python(const Arg& literal);

}  // namespace thunder
