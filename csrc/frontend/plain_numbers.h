// Traced numbers where C code looks at them.
//
// A traced number answers what Python's protocols ask of it, but is no float and no int: type(n) is not float, and C
// code that reads the digits of one (a NumPy function, struct.pack, the JSON encoder) refuses it.  So the interpreter
// answers questions about its type itself, and C code is given Python's own number, of which the program then holds for
// this value alone.  Code that keeps or hands on what it is given (lists, functools, PyTorch) gets the traced number.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "frontend/interpreter/observer.h"
#include "frontend/torch_calls.h"

namespace thunder::frontend {

class PlainNumbers {
 public:
  /// `may_hold`: whether the program may have put a number into a container or object.
  PlainNumbers(const TorchCalls& calls, std::function<bool(PyObject*)> may_hold)
      : calls_(calls), may_hold_(std::move(may_hold)) {}

  /// What a call of C code looks like.
  struct Callee {
    PyObject* callable;
    PyObject* self = nullptr;  ///< of a method
    std::string name = {};     ///< of a function or method
  };
  /// The operands of an instruction, as Observer::operands() says.
  void operands(interpreter::Operands kind, PyObject** first) const;
  /// What type(n), isinstance(n, c), getattr(n, name) or hasattr(n, name) give; nothing for other calls.
  std::optional<PyObject*> answer(PyObject* callable, PyObject* const* arguments, size_t n) const;
  /// What a function of the module math gives, where that can be said without knowing the numbers.
  std::optional<PyObject*> function(std::string_view name, PyObject* const* arguments, size_t n) const;
  /// n.name, as Python's own number has it; nothing for other objects.
  std::optional<PyObject*> attribute(PyObject* object, PyObject* name) const;
  /// Whether a call may read digits.
  bool reads_digits(const Callee& c, PyObject* const* arguments, size_t n) const;
  /// The keys of a dict that a call filled.
  void make_keys_plain(const Callee& c, PyObject* const* arguments, size_t n, PyObject* result) const;

  /// The arguments of a call of C code that reads digits.  During the object's lifetime, the results of Python
  /// functions that the C code calls back go to the C code as well, and so become Python's own numbers (leave()).
  class Call {
   public:
    Call(PlainNumbers& numbers, const Callee& c, PyObject* const* arguments, size_t n);
    ~Call() { numbers_.outside_ = before_; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    PyObject* const* arguments() const { return given_.data(); }

   private:
    PlainNumbers& numbers_;
    std::vector<Ref> owned_;
    std::vector<PyObject*> given_;
    bool before_;
  };
  /// A frame begins: whether such a call made it.
  bool enter() { return std::exchange(outside_, false); }
  /// It ends with a result (a new reference, or null), which is given as a new reference.
  PyObject* leave(PyObject* result);

  /// The number in this place (an owned reference), and all within the containers that it holds, become Python's own.
  void make_plain(PyObject** place) const;
  void make_plain(Ref& o) const;

 private:
  bool keeps_what_it_is_given(PyTypeObject* type) const;
  bool keeps_what_it_is_given(const Callee& c) const;

  const TorchCalls& calls_;
  std::function<bool(PyObject*)> may_hold_;
  bool outside_ = false;
};

}  // namespace thunder::frontend
