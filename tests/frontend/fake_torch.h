// PyTorch for the tests of acquisition, which do not link it: tensors that have metadata and no elements, and answers to
// what the front end asks of PyTorch (frontend/hooks.h).
#pragma once

#include <doctest.h>

#include <string>
#include <vector>

#include "core/trace.h"
#include "frontend/hooks.h"
#include "python/ref.h"

namespace thunder::frontend::test {

/// PyTorch for the length of a test case.
class FakeTorch {
 public:
  /// Fills in the hooks.  Traced numbers made from now on belong to a new trace.
  FakeTorch();
  /// Checks that no Python exception is left.
  ~FakeTorch();
  FakeTorch(const FakeTorch&) = delete;
  FakeTorch& operator=(const FakeTorch&) = delete;

  bool grad_enabled = true;
  std::string other_kind;  ///< of each tensor from outside; empty: programs take it
  int64_t integer = 3;     ///< each int that a run computes
  double real = 0.5;       ///< each float that a run computes
  bool fails = false;      ///< runs raise an Error

  std::vector<std::string> ran;    ///< the operators of each run: "prims.nonzero prims.size"
  std::vector<size_t> run_inputs;  ///< how many inputs each run had
  int evaluated = 0;               ///< how many traces without inputs were
  int undone = 0;                  ///< how often generators were made what they were
  int settings = 0;                ///< how often settings were adopted
};

/// The type of a tensor on the CPU.
TensorType tensor_type(Dims shape, Dims strides, DType dtype = DType::f32, bool requires_grad = false);
/// A tensor of PyTorch's, with memory of its own.
Ref tensor(const Dims& shape, DType dtype = DType::f32, bool requires_grad = false);
/// Another tensor of the same sizes in the tensor's memory.
Ref in_memory_of(PyObject* tensor);
/// The tensor is not one that the user made, but was computed from others.
void make_computed(PyObject* tensor);

/// The names that Python source defines.
class Names {
 public:
  explicit Names(const char* source);
  /// Borrowed.
  PyObject* operator[](const char* name) const;
  PyTypeObject* type(const char* name) const { return reinterpret_cast<PyTypeObject*>((*this)[name]); }
  Ref eval(const char* expression) const;
  void exec(const char* statement) const;

 private:
  Ref dict_;
};

/// An interned string.
Ref str(const char* text);
Ref integer(int64_t value);
std::string repr(PyObject* o);
inline std::string repr(const Ref& o) { return repr(o.get()); }

/// What a guard consists of, as text.
using Lines = std::vector<std::string>;

}  // namespace thunder::frontend::test
