// Guards on what a traced program may have read besides its arguments: the module's attributes, hooks and tensors, the
// function's closure, defaults and globals.
//
// Interpreted code tells what it reads (frontend/reads.h), and exactly that is watched: numbers, strings and flags by
// value, other objects by identity.  Where Python is not interpreted, a snapshot of all that is within reach stands for
// it.  Only the entries of dicts that were written to are compared, once.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "frontend/cache_lines.h"
#include "frontend/dict_writes.h"
#include "frontend/interpreter/interpreter.h"
#include "frontend/number_places.h"
#include "frontend/outside_state.h"
#include "python/ref.h"

namespace thunder::frontend {

/// Unchanged as far as a traced program can have noticed: plain values by value (and type), tuples of them too, others
/// by identity.
bool same_value(PyObject* then, PyObject* now);

class EnvironmentGuard {
 public:
  /// Watches a module and all that are in it: flags, attributes, children, hooks.
  void watch_module(PyObject* module);
  /// Watches a function's closure cells, defaults, and the globals that its code (and code nested in it) names.
  void watch_function(PyObject* function);
  /// Where a captured tensor was found, so that one put in its place is used: in a module's _parameters or _buffers, a
  /// closure cell, a global.  A tensor found nowhere is kept as it is.
  void add_tensor(PyObject* tensor);

  /// The tensor may not be replaced by another one: the code looks at its attributes, or sets some.  Told before the
  /// places are where the tensor lies.
  void hold_tensor(PyObject* tensor) {
    if (held_.insert(tensor).second) owned_.push_back(Ref::borrow(tensor));
  }

  /// This entry of a dict is as now; a null value: there is none.
  struct GuardedEntry {
    Ref key, value;
    interpreter::Place place;  ///< where it was read
  };
  /// These entries of a dict.  `size`: how many it has in all, or -1; `order`: its keys are these in this order.
  void watch_entries(PyObject* dict, std::string name, const std::vector<GuardedEntry>& entries, Py_ssize_t size,
                     bool order);
  void watch_cell(PyObject* cell, PyObject* value, std::string name, interpreter::Place place = {});
  /// A list, set or deque: its length, and its elements if `elements` (a tuple or frozenset of them) is given.
  void watch_container(PyObject* object, Py_ssize_t length, Ref elements, std::string name,
                       interpreter::Place place = {});
  /// What looking a name up in a class gives; null: nothing.
  void watch_class(PyTypeObject* type, std::vector<GuardedEntry> found);
  /// An element of a list.
  void watch_element(PyObject* list, Py_ssize_t index, PyObject* value, std::string name, interpreter::Place place);
  /// An object's class, and which dict its attributes are in.
  void watch_type(PyObject* object);
  /// What a call gives that costs next to nothing: of a setting, or of what a cache keeps.
  struct Answer {
    Ref function, arguments, keywords;  // a tuple and a dict
    Ref value;
  };
  void watch_answer(Answer answer);
  /// What C code keeps.
  void watch_state(const StateOf& of, Ref state, interpreter::Place place);
  /// A slot or another attribute that a C descriptor reads.
  void watch_attribute(PyObject* object, PyObject* name, PyObject* value, std::string where);
  /// A Python function's code and defaults.
  void watch_code(PyObject* function);
  /// A weak reference to a tensor, which is the one that now lies where the tensor was found; false: it was found
  /// nowhere, so that the guard would be what keeps it alive.  Told after all places.
  bool watch_weak(PyObject* reference);

  /// False, and `why`, if something changed.  Tensors are looked up again where a dict they live in was written to.
  bool check(std::string* why = nullptr);
  /// The place of the number because of which check() said no, if it was one; `why` was asked for.
  const NumberPlace& changed_number() const { return changed_; }
  /// The guards as text, a line each: "model.scale == 2.0".
  std::vector<std::string> lines() const;
  /// The memory that check() reads while nothing changes.
  void add_lines(CacheLines& lines);
  /// The captured tensors now, borrowed, in order of add_tensor().
  const std::vector<PyObject*>& tensors() const { return current_; }

 private:
  struct Item {
    Ref key, value;
    bool tensor = false;  // may be replaced by another tensor
    interpreter::Place place;
  };
  struct Watch {
    Ref dict;
    std::string name;  // "model.layers.0", for `why`
    std::vector<Item> items;
    Py_ssize_t size = -1;  // how many entries there are in all; -1: any number
    bool order = false;
  };
  struct Container {
    Ref object, elements;
    Py_ssize_t length;
    std::string name;
    interpreter::Place place;
  };
  struct Element {
    Ref list, value;
    Py_ssize_t index;
    std::string name;
    interpreter::Place place;
    bool tensor;
  };
  struct Class {
    Ref type;
    unsigned int version;
    std::vector<GuardedEntry> found, implied;  // what every use of an instance may ask for
  };
  struct Attribute {
    Ref object, name, value;
    std::string where;
  };
  struct State {
    StateOf of;
    Ref state;
    interpreter::Place place;
  };
  struct Type {
    Ref object;
    PyTypeObject* type;
    PyObject** place;  // of its dict; null: it has none
    Ref dict;
  };
  struct Function {
    Ref function, code, defaults, keyword_defaults;
  };
  struct Cell {
    Ref cell, value;
    std::string name;
    bool tensor = false;
    interpreter::Place place;
  };
  struct Place {
    enum Kind { Fixed, Dict, CellContents, ListElement } kind = Fixed;
    Ref container, key;
    Py_ssize_t index = 0;
    /// The tensor that is there now, borrowed; null if there is none.
    PyObject* tensor() const;
  };

  struct Weak {
    Ref reference;
    std::vector<Place> places;  // of what it refers to
  };

  void watch_dict(PyObject* dict, std::string name, bool exact);
  void add_watch(Watch w);
  void watch_code(PyObject* code, PyObject* globals, const std::string& name);
  bool compare(Watch& w, std::string* why);
  bool check_cells(bool& written, std::string* why);
  bool check_elements(bool& written, std::string* why);
  bool check_objects(std::string* why);
  bool check_classes(std::string* why);
  bool refresh_tensors(std::string* why);
  bool check_all(std::string* why);
  bool referents_stay() const;
  bool is_replaceable(PyObject* o) const;
  void note_number(PyObject* container, PyObject* key, PyObject* then, PyObject* now);
  std::vector<Place> find(PyObject* tensor);

  std::unordered_set<PyObject*> watched_;
  std::vector<Watch> watches_;
  DictWrites writes_;  // of watches_, by their indices; after it, as the dicts must outlive it
  std::vector<Cell> cells_;
  std::vector<Container> containers_;
  std::vector<Class> classes_;
  std::vector<Attribute> attributes_;
  std::vector<Function> functions_;
  std::vector<Element> elements_;
  std::vector<Answer> answers_;
  std::vector<Type> types_;
  std::vector<State> states_;
  std::vector<std::vector<Place>> places_;  // of each captured tensor: wherever it was found
  std::vector<Ref> owned_;
  std::vector<Ref> owned_tensors_;  // one per entry of current_
  std::vector<PyObject*> current_;
  NumberPlace changed_;
  std::unordered_set<PyObject*> held_;  // in owned_
  std::vector<Weak> weak_;
  bool refresh_due_ = false;
  bool gone_ = false;  // for good
};

}  // namespace thunder::frontend
