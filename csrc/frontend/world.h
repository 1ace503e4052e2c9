// Guards on what a traced program may have read besides its arguments: the module's attributes, hooks and tensors, the
// function's closure, defaults and globals.
//
// Tracing by running does not see reads, so a snapshot of all that is within reach stands for them: numbers, strings
// and flags by value, other objects by identity.  Only the entries of dicts that were written to are compared, once.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "frontend/cache_lines.h"
#include "frontend/dict_writes.h"
#include "frontend/python.h"

namespace thunder::frontend {

class WorldGuard {
 public:
  /// Watches a module and all that are in it: flags, attributes, children, hooks.
  void watch_module(PyObject* module);
  /// Watches a function's closure cells, defaults, and the globals that its code (and code nested in it) names.
  void watch_function(PyObject* function);
  /// Where a captured tensor was found, so that one put in its place is used: in a module's _parameters or _buffers, a
  /// closure cell, a global.  A tensor found nowhere is kept as it is.
  void add_tensor(PyObject* tensor);

  /// False, and `why`, if something changed.  Tensors are looked up again where a dict they live in was written to.
  bool check(std::string* why = nullptr);
  /// The memory that check() reads while nothing changes.
  void add_lines(CacheLines& lines) { writes_.add_lines(lines); }
  /// The captured tensors now, borrowed, in order of add_tensor().
  const std::vector<PyObject*>& tensors() const { return current_; }

 private:
  struct Item {
    Ref key, value;
    bool tensor = false;  // may be replaced by another tensor
  };
  struct Watch {
    Ref dict;
    std::string name;  // "model.layers.0", for `why`
    std::vector<Item> items;
    bool exact = false;  // no other key may appear
  };
  struct Cell {
    Ref cell, value;
    std::string name;
    bool tensor = false;
  };
  struct Place {
    enum Kind { Fixed, Dict, CellContents } kind = Fixed;
    Ref container, key;
  };

  void watch_dict(PyObject* dict, std::string name, bool exact);
  void add_watch(Watch w);
  void watch_code(PyObject* code, PyObject* globals, const std::string& name);
  bool compare(Watch& w, std::string* why);
  bool refresh_tensors(std::string* why);
  Place find(PyObject* tensor);

  std::unordered_set<PyObject*> watched_;
  std::vector<Watch> watches_;
  DictWrites writes_;  // of watches_, by their indices; after it, as the dicts must outlive it
  std::vector<Cell> cells_;
  std::vector<Place> places_;
  std::vector<Ref> owned_;
  std::vector<Ref> owned_tensors_;  // one per entry of current_
  std::vector<PyObject*> current_;
};

}  // namespace thunder::frontend
