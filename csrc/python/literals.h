// Literals of traces as Python's objects, and back.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/value.h"
#include "python/ref.h"

namespace thunder {

/// PyTorch's objects that literals stand for.  The bindings set them when thunder is imported.
struct LiteralObjects {
  Ref device_class;                                    ///< torch.device
  std::vector<Ref> dtypes;                             ///< torch.dtype objects in the order of DType
  std::vector<std::pair<Ref, DType>> more_dtypes;      ///< other objects that mean a dtype, of another language
  std::vector<std::pair<Ref, std::string>> constants;  ///< torch.contiguous_format, ... and how they print
};

LiteralObjects& literal_objects();

Ref dtype_to_python(DType t);
Ref device_to_python(const Device& d);
Ref device_to_python(const std::string& name);  ///< "cuda:0"

/// A literal as the object that it prints as (torch.float32, slice(0, 2)).  `other` gives the objects of values and of
/// sizes that are no constants.  PythonError (TypeError) for one of these without `other`; Error (Value) for a constant
/// that PyTorch does not have.
Ref literal_to_python(const Arg& literal, const std::function<Ref(const Arg&)>& other = {});

/// The reverse: numbers, strings, dtypes, devices, constants, slices, and containers of these.  `other` is asked about
/// any object that is no number, string, bool or None itself, and gives nothing where the object is a literal.  An object
/// that says which number it is (a NumPy scalar) is that number; any other is opaque.  Error (Runtime) for an int of more
/// than 64 bits.
Arg literal_from_python(PyObject* o, const std::function<std::optional<Arg>(PyObject*)>& other);

/// The object itself as an argument, named after its type.
Arg opaque_arg(PyObject* o);

}  // namespace thunder
