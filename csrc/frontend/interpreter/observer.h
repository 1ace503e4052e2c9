// Who wants to know what interpreted code reads from the environment, and writes to it.
//
// Objects are told apart by identity, so an observer knows which of them came from outside; a value that was made on
// the way is told like any other.  All references are borrowed.  Functions that return a bool give false with an
// exception set; the instruction then raises it.
#pragma once

#include <optional>

#include "python/ref.h"

namespace thunder::frontend::interpreter {

/// Which operands an instruction has on the stack, from the first.
enum class Operands {
  Operator,    ///< left, right
  Identity,    ///< left, right
  Subscript,   ///< object, key
  Membership,  ///< key, container
  Store,       ///< value, object, key
  Attribute,   ///< value, object
  Key,         ///< what becomes a key of a dict or set
};

class Observer {
 public:
  virtual ~Observer() = default;

  /// A frame of this code begins or resumes.  `function`, `locals` (a mapping) and its `first` variable may be null.
  virtual bool enter(PyObject* function, PyCodeObject* code, PyObject* locals, PyObject* first) { return true; }
  /// A frame begins or resumes: whether leaves() is to be asked about its result.
  virtual bool enters() { return false; }
  /// What the frame returns or yields (a new reference, or null with an exception set): as it is to be handed out.
  virtual PyObject* leaves(PyObject* result) { return result; }
  /// An instruction is about to use these (owned references), which the observer may replace.  May throw PythonError.
  virtual void operands(Operands kind, PyObject** first) {}
  /// An instruction made a list, set, dict, cell or function.
  virtual void made(PyObject* object) {}
  /// Whether the code that runs made the object.
  virtual bool made_inside(PyObject* object) const { return true; }
  /// An entry of a dict, an element of a list or the contents of a cell (then `key` is null) is about to be read.  The
  /// observer may give it itself, as in call().
  virtual std::optional<PyObject*> entry(PyObject* container, PyObject* key) { return std::nullopt; }
  /// A global or builtin was looked up: `value` is null where the dict has no such key.
  virtual void read_entry(PyObject* dict, PyObject* key, PyObject* value) {}
  virtual void read_cell(PyObject* cell, PyObject* value) {}
  /// object.name is about to be read.  The observer may give it itself, as in call().
  virtual std::optional<PyObject*> attribute(PyObject* object, PyObject* name) { return std::nullopt; }
  /// object.name was read and gave `value`; null: it raised.
  virtual void read_attribute(PyObject* object, PyObject* name, PyObject* value) {}
  /// object[key]; null: it raised.
  virtual void read_item(PyObject* object, PyObject* key, PyObject* value) {}
  virtual void read_membership(PyObject* object, PyObject* key, bool found) {}
  /// Whether it is true was asked, or how long it is.
  virtual void read_length(PyObject* object) {}
  /// All that is in it: it is iterated, unpacked, or goes to a C function.
  virtual void read_whole(PyObject* object) {}
  /// All that is in it, and in what is in it.
  virtual void read_compared(PyObject* object) {}
  /// Whether two objects stand for one.
  virtual bool are_same(PyObject* left, PyObject* right) { return false; }
  /// Whether `object` stands for one of the very type of `other`, though its own is a subclass.
  virtual bool is_plain_subclass(PyObject* object, PyObject* other) { return false; }

  // Before each write; `value` is null for a deletion.
  virtual bool write_entry(PyObject* dict, PyObject* key, PyObject* value) { return true; }
  virtual bool write_cell(PyObject* cell, PyObject* value) { return true; }
  virtual bool write_attribute(PyObject* object, PyObject* name, PyObject* value) { return true; }
  virtual bool write_item(PyObject* object, PyObject* key, PyObject* value) { return true; }
  /// How many writes are remembered, and: the one that was remembered when there were `before`, if any, raised.
  virtual size_t writes() const { return 0; }
  virtual void forget_write(size_t before) {}

  /// A call.  The observer may make it itself: the result then is a new
  /// reference, or null with an exception set.
  virtual std::optional<PyObject*> call(PyObject* callable, PyObject* const* arguments, size_t n, PyObject* names) {
    return std::nullopt;
  }
};

}  // namespace thunder::frontend::interpreter
