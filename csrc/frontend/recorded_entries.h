// Entries of one dict, or names in one class, with what the program found there.
//
// Owns the entries; becomes a guard's entries.  Calls nothing.
#pragma once

#include <vector>

#include "frontend/environment.h"

namespace thunder::frontend {

class RecordedEntries {
 public:
  RecordedEntries() : entries_(Ref::steal(PyDict_New())) {}

  /// What is found first counts; a null value: there is no such entry.  Whether the key is new.
  bool add(PyObject* key, PyObject* value);
  /// Replaces the entries by those of a dict.
  void assign(Ref entries) { entries_ = std::move(entries); }
  bool has(PyObject* key) const { return PyDict_Contains(entries_.get(), key) == 1; }

  template <class Visit>
  void each_value(Visit&& visit) const {
    PyObject *key, *value;
    for (Py_ssize_t i = 0; PyDict_Next(entries_.get(), &i, &key, &value);) visit(value);
  }
  /// `places`: where the entries were read, in their order; the last place is that of all further ones.
  std::vector<EnvironmentGuard::GuardedEntry> entries(const std::vector<interpreter::Place>& places = {}) const;

 private:
  Ref entries_;  // a dict: key -> value, or a value that stands for "there was none"
};

}  // namespace thunder::frontend
