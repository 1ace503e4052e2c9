// Functions and methods of C code, as calls of them look.
//
// Calls nothing.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "python/ref.h"

namespace thunder::frontend {

/// A function or method and the object that it is called on.
struct CMethod {
  std::string name;
  PyObject* self;              ///< the module of a function; null: there is none
  PyObject* const* arguments;  ///< without self
  size_t n;
  Ref owned;  ///< keeps self and name alive
};

/// What a callable is; nothing if it is something else.
std::optional<CMethod> method_of(PyObject* callable, PyObject* const* arguments, size_t n);
/// The same of a bound method of Cython, whose functions are bound as Python's are.
std::optional<CMethod> method_of_extension(PyObject* bound, PyObject* const* arguments, size_t n);

bool is_cython(PyObject* o);
/// Where a C function comes from: its module, or the class of what it is a method of.
std::string origin(PyObject* callable, PyObject* self);
/// Whether a method of this name changes the container that it is called on.
bool changes_container(std::string_view name);
bool one_of(std::string_view name, const std::initializer_list<std::string_view>& names);

}  // namespace thunder::frontend
