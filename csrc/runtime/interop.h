// Between registers of a Program and Python objects.  All functions need the GIL.
#pragma once

#include <ATen/core/ivalue.h>

#include "python/ref.h"

namespace thunder {

/// Tensors, numbers, None, strings, devices, lists, tuples; Python objects as they came.  torch's python_error if there
/// is no such object.
Ref to_python(const c10::IValue& value);
/// The reverse; anything that is none of these is carried as it is.
c10::IValue from_python(PyObject* borrowed);

}  // namespace thunder
