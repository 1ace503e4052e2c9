// Owning references to Python's objects, and Python's errors as a C++ exception.
#pragma once

#include <Python.h>

#include <exception>
#include <memory>
#include <utility>

namespace thunder {

/// Python's error indicator is set; the bindings let it through.
class PythonError : public std::exception {
 public:
  const char* what() const noexcept override { return "a Python exception is set"; }
};

/// An owned reference.  Every member needs the GIL; hold_python() does not.
class Ref {
 public:
  Ref() = default;
  /// Takes over a new reference; PythonError if it is null.
  static Ref steal(PyObject* o) {
    if (!o) throw PythonError();
    Ref r;
    r.o_ = o;
    return r;
  }
  static Ref borrow(PyObject* o) {
    Py_XINCREF(o);
    Ref r;
    r.o_ = o;
    return r;
  }
  Ref(const Ref& other) : o_(other.o_) { Py_XINCREF(o_); }
  Ref(Ref&& other) noexcept : o_(std::exchange(other.o_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(o_, other.o_);
    return *this;
  }
  ~Ref() { Py_XDECREF(o_); }

  PyObject* get() const { return o_; }
  PyObject* release() { return std::exchange(o_, nullptr); }
  explicit operator bool() const { return o_ != nullptr; }

 private:
  PyObject* o_ = nullptr;
};

/// A reference that any thread may drop: the last copy takes the GIL.  Layers without Python hold objects this way
/// (OpaqueArg::object, Op::context_owner).
std::shared_ptr<void> hold_python(PyObject* borrowed);

}  // namespace thunder
