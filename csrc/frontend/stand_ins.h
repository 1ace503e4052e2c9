// Copies of the mutable objects among a call's arguments.
//
// A program is acquired on copies whose tensors are proxies.  A copy stands for whatever the caller passes in its place:
// where a result refers to it, it refers to the caller's object, and what the code did to it is done to the caller's.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "frontend/effect.h"
#include "frontend/python.h"

namespace thunder::frontend {

class StandIns {
 public:
  /// For these lists, dicts and objects (borrowed; each once).
  explicit StandIns(const std::vector<PyObject*>& arguments);
  StandIns(const StandIns&) = delete;
  StandIns& operator=(const StandIns&) = delete;

  bool stands_for(PyObject* argument) const { return index_.count(argument) != 0; }
  /// The copy; null if it is not made yet.
  PyObject* copy_of(PyObject* argument) const;
  void made(PyObject* argument, const Ref& copy);
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

  std::unordered_map<PyObject*, size_t> index_;  // of arguments
  std::unordered_map<PyObject*, size_t> by_copy_;
  std::vector<Ref> copies_;
  std::vector<State> before_;
};

}  // namespace thunder::frontend
