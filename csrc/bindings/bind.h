// What the files of this folder share: one function an area, called by module.cpp.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/error.h"
#include "python/ref.h"

namespace nb = nanobind;

namespace thunder::bindings {

void bind_errors(nb::module_& m);
void bind_trace(nb::module_& m);
void bind_registry(nb::module_& m);
void bind_executors(nb::module_& m);
void bind_tracer(nb::module_& m);
void bind_frontend(nb::module_& m);
void bind_interpreter(nb::module_& m);
void bind_function(nb::module_& m);
void bind_extend(nb::module_& m);
void bind_regions(nb::module_& m);
void bind_distributed(nb::module_& m);
void bind_simulate(nb::module_& m);

/// Sets the Python exception for the C++ exception being handled: call in a catch block.
void set_python_error() noexcept;

/// A new reference as nanobind's object.
inline nb::object object(Ref r) { return nb::steal(r.release()); }

}  // namespace thunder::bindings
