// Copies of the mutable objects among a call's arguments.
//
// A program is acquired on copies whose tensors are proxies.  A copy stands for whatever the caller passes in its place:
// where a result refers to it, it refers to the caller's object, and what the code did to it is done to the caller's.
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/effect.h"
#include "python/ref.h"

namespace thunder::frontend {

/// What a function reads from its argument objects of one class.
struct ClassUse {
  Ref type;                 // the class; the reference keeps its address from another class
  bool identity = false;    ///< the function depends on the objects' identity, so that they are not flattened
  bool everything = false;  ///< the function depends on all attributes
  bool written = false;     ///< for tensors: the function writes to attributes
  Ref names{};              ///< the attributes that the function reads, unless `everything`: a set of strings

  void add(PyObject* name);
  void add(const ClassUse& other);
  bool wants(PyObject* name) const { return everything || (names && PySet_Contains(names.get(), name) == 1); }
};
/// Of a class that is not in it, everything is looked at as long as nothing is known.
using ClassUses = std::unordered_map<PyTypeObject*, ClassUse>;
bool is_wanted(const ClassUses& uses, PyObject* object, PyObject* name);
/// What a function looks at in the attributes of its argument tensors; null: in nothing.
const ClassUse* use_of_tensors(const ClassUses* uses);

/// Objects by their addresses, which stay theirs.
using Identities = std::unordered_map<PyObject*, Ref>;

class ArgumentCopies {
 public:
  /// For these lists, dicts and objects (borrowed; each once).
  ArgumentCopies(const std::vector<PyObject*>& arguments, const ClassUses& uses);
  ArgumentCopies(const ArgumentCopies&) = delete;
  ArgumentCopies& operator=(const ArgumentCopies&) = delete;

  bool stands_for(PyObject* argument) const { return index_.count(argument) != 0; }
  const ClassUses& uses() const { return uses_; }
  /// The copy; null if it is not made yet.
  PyObject* copy_of(PyObject* argument) const;
  void made(PyObject* argument, const Ref& copy);
  /// A proxy that stands for one of the arguments' tensors.
  void add_tensor(PyObject* proxy) { tensors_.insert(proxy); }
  bool is_argument_tensor(PyObject* o) const { return tensors_.count(o) != 0; }
  /// All copies are complete, the code has not run yet.
  void seal();

  const std::vector<Ref>& copies() const { return copies_; }
  /// Which of the arguments a copy stands for.
  std::optional<size_t> argument(PyObject* copy) const;
  /// What the code did to the copies.
  std::vector<Effect> effects() const;

 private:
  struct State {
    Ref contents;    // of a list or dict
    Ref keys;        // of a dict, in order
    Ref attributes;  // a dict
  };
  static State state_of(PyObject* copy);
  void compare_list(size_t i, const Ref& before, std::vector<Effect>& out) const;
  void compare_dict(size_t i, const State& before, std::vector<Effect>& out) const;
  void compare_attributes(size_t i, const Ref& before, std::vector<Effect>& out) const;

  const ClassUses& uses_;
  std::unordered_map<PyObject*, size_t> index_;  // of arguments
  std::unordered_map<PyObject*, size_t> by_copy_;
  std::vector<Ref> copies_;
  std::unordered_set<PyObject*> tensors_;
  std::vector<State> before_;
};

}  // namespace thunder::frontend
