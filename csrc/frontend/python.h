// Owning references and errors of the CPython API.
#pragma once

#include <Python.h>

#include <exception>
#include <utility>

namespace thunder::frontend {

/// Python's error indicator is set; the bindings let it through.
class PythonError : public std::exception {
 public:
  const char* what() const noexcept override { return "a Python exception is set"; }
};

/// What the user's code raised is no Exception (Ctrl-C): for the caller, and no reason to try another way, so that
/// handlers of std::exception let it pass.
struct Interrupted {
  std::exception_ptr raised;
};

/// An owned reference.
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

}  // namespace thunder::frontend
