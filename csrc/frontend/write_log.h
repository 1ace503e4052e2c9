// The writes of the program to objects of the environment.
//
// A write really happens, so that the program sees it, and is taken back when acquisition ends.  The log owns each
// place that was written to with what was there before, as an Effect, and the order of the keys of dicts in which any
// was deleted.  Calls nothing; environment_writes.h says what becomes a write.
#pragma once

#include <unordered_map>
#include <vector>

#include "frontend/effect.h"
#include "python/ref.h"

namespace thunder::frontend {

class WriteLog {
 public:
  /// Whether the program wrote to an entry of a dict, an element of a list or a cell (then `key` is null).
  bool written(PyObject* owner, PyObject* key) const;
  bool attribute_written(PyObject* owner, PyObject* name) const;
  /// Whether the program wrote the attribute of a class or of a base, also of a base that the class hides by its own.
  bool class_written(PyTypeObject* type, PyObject* name) const;
  /// Whether the program wrote to what is in a container.
  bool changed(PyObject* container) const { return !of(container).empty(); }
  /// Whether there is an effect of the kind.
  bool has(PyObject* container, Effect::Kind kind) const;
  /// Whether the program wrote to any place of an object.
  bool wrote_to(PyObject* object) const;
  /// A container before the program wrote to it.
  Ref as_it_was(PyObject* container) const;

  /// A place is about to be written to; the first write counts.
  void add(Effect::Kind kind, PyObject* owner, PyObject* key, PyObject* before);
  /// All of a container is about to change; `before`: as Effect says.
  void add_container(Effect::Kind kind, PyObject* container, Ref before);
  /// What is made again after it was deleted comes last: the order is remembered.
  void will_delete(PyObject* dict, PyObject* key);
  /// The write that was remembered when there were so many raised.
  void forget(size_t at);

  size_t size() const { return effects_.size(); }
  /// How often a place that the program wrote to was asked for.
  size_t read_written() const { return read_written_; }
  const std::vector<Effect>& effects() const { return effects_; }

  /// Entries that were made are made in the order in which the dict has them at the end.
  void sort_new_entries();
  /// The environment as it was; each effect keeps what the code left there.
  void take_back();
  /// After take_back(): the log is empty.
  std::vector<Effect> release() { return std::exchange(effects_, {}); }

 private:
  using Index = std::unordered_map<PyObject*, std::vector<size_t>>;  // by owner

  const std::vector<size_t>& of(PyObject* owner) const;
  Ref dict_as_it_was(PyObject* dict) const;
  Ref list_as_it_was(PyObject* list) const;
  void take_back(Effect& e);
  void restore_orders();

  std::vector<Effect> effects_;
  mutable size_t read_written_ = 0;
  Index effects_of_, attributes_of_;                        // the latter: Effect::Attribute
  std::unordered_map<PyObject*, std::vector<Ref>> orders_;  // the keys of dicts before any was deleted
};

}  // namespace thunder::frontend
