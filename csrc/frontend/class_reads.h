// What the program looked up in classes, which classes its objects are of, and which functions it called.
//
// Owns those records, which become guards.  Calls the fresh objects and the log of writes.
#pragma once

#include <unordered_map>
#include <vector>

#include "frontend/environment.h"
#include "frontend/fresh_objects.h"
#include "frontend/kept_set.h"
#include "frontend/recorded_entries.h"
#include "frontend/write_log.h"

namespace thunder::frontend {

class ClassReads {
 public:
  ClassReads(FreshObjects& fresh, const WriteLog& log) : fresh_(fresh), log_(log) {}

  /// A look-up of a name in a class gave `found`, or null.
  void read(PyTypeObject* type, PyObject* name, PyObject* found);
  /// super().name: each class from the one after super's own to the one that has the name.
  void read_super(PyObject* super, PyObject* name);
  /// The program depends on the class of an object.
  void read_type(PyObject* object);
  /// The program runs a function's code.  Whether the function is one from outside that is new.
  bool read_function(PyObject* function) { return !fresh_.has(function) && functions_.add(function); }

  void watch_types(EnvironmentGuard& environment) const;
  void watch_classes(EnvironmentGuard& environment) const;
  void watch_functions(EnvironmentGuard& environment) const;
  void watch_own_entries(EnvironmentGuard& environment) const;
  template <class Visit>
  void each_value(Visit&& visit) const {
    for (const ClassRead& r : classes_) r.found.each_value(visit);
    for (const auto& [type, entries] : own_entries_) entries.each_value(visit);
  }

 private:
  struct ClassRead {
    PyTypeObject* type;
    RecordedEntries found = {};
  };
  void read_below_written(PyTypeObject* type, PyObject* name);
  void add_own_entry(PyObject* type, PyObject* name, PyObject* own);

  FreshObjects& fresh_;
  const WriteLog& log_;
  std::unordered_map<PyObject*, size_t> index_;  // into classes_
  std::vector<ClassRead> classes_;
  std::vector<std::pair<Ref, RecordedEntries>> own_entries_;  // of classes; null: a class itself has no such entry
  std::vector<Ref> kept_;                                     // addresses of classes stay what they are
  KeptSet types_;                                             // objects
  KeptSet functions_;
};

}  // namespace thunder::frontend
