// What the program read of dicts, lists, sets, deques and cells.
//
// An entry, an element or a length is recorded with the value that the first read gave, unless the program wrote there
// before.  Owns the records, which become guards.  Calls the drawn arrays, the names, the fresh objects, the uses of
// arguments, the log of writes, the touched states and the reads of classes.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "frontend/argument_uses.h"
#include "frontend/class_reads.h"
#include "frontend/environment.h"
#include "frontend/fresh_objects.h"
#include "frontend/object_names.h"
#include "frontend/python_draws.h"
#include "frontend/recorded_entries.h"
#include "frontend/touched_states.h"
#include "frontend/write_log.h"

namespace thunder::frontend {

class ContainerReads {
 public:
  ContainerReads(PythonDraws& draws, ObjectNames& names, FreshObjects& fresh, ArgumentUses& uses, const WriteLog& log,
                 TouchedStates& states, ClassReads& classes)
      : draws_(draws), names_(names), fresh_(fresh), uses_(uses), log_(log), states_(states), classes_(classes) {}

  // As the observer says, of any object.
  void read_entry(PyObject* dict, PyObject* key, PyObject* value);
  void read_cell(PyObject* cell, PyObject* value);
  void read_item(PyObject* object, PyObject* key);
  void read_membership(PyObject* object, PyObject* key);
  void read_length(PyObject* object);
  void read_whole(PyObject* object);

  /// An entry of a dict that the program did not write to.
  void add_entry(PyObject* dict, PyObject* key, PyObject* value);
  /// All entries of a dict, in their order.
  void read_dict_whole(PyObject* dict);
  /// Whether all elements of a list, set or deque were read.
  bool knows_elements(PyObject* container) const;
  /// Whether a guard says that what was there before the write to an entry, cell or element is there.
  bool guards(const Effect& write) const;

  void watch(EnvironmentGuard& environment);
  template <class Visit>
  void each_value(Visit&& visit) const {
    for (const DictRead& r : dicts_) r.entries.each_value(visit);
    for (const CellRead& r : cells_) visit(r.value.get());
    for (const ElementReads& r : containers_) {
      for (const auto& [i, value] : r.items) visit(value.get());
      if (r.elements && PyTuple_Check(r.elements.get()))
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(r.elements.get()); ++i)
          visit(PyTuple_GET_ITEM(r.elements.get(), i));
    }
  }

 private:
  struct DictRead {
    Ref dict;
    RecordedEntries entries = {};
    std::vector<interpreter::Place> places = {};  // of the entries
    Py_ssize_t size = -1;                         // asked for
    bool order = false;
  };
  struct ElementReads {  // of a list, set or deque
    Ref object, elements;
    Py_ssize_t length;  // -1: was not asked for
    interpreter::Place place;
    std::map<Py_ssize_t, Ref> items = {};  // those that were read one by one
  };
  struct CellRead {
    Ref cell, value;
    std::string name;
    interpreter::Place place;
  };

  DictRead& dict_read(PyObject* dict);
  ElementReads& element_reads(PyObject* container);
  void read_element(PyObject* list, PyObject* index);
  void watch_elements(EnvironmentGuard& environment, const ElementReads& r);

  PythonDraws& draws_;
  ObjectNames& names_;
  FreshObjects& fresh_;
  ArgumentUses& uses_;
  const WriteLog& log_;
  TouchedStates& states_;
  ClassReads& classes_;
  std::unordered_map<PyObject*, size_t> dict_index_, container_index_, cell_index_;
  // Deques: what is read while an entry is being filled in, by a key's __eq__, does not move it.
  std::deque<DictRead> dicts_;
  std::deque<ElementReads> containers_;
  std::vector<CellRead> cells_;
};

}  // namespace thunder::frontend
