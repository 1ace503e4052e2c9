// Which objects the program made (fresh), and which were there before it (outside).
//
// Owns the fresh objects, and the iterators of C code that came from outside.  A program that advances such an iterator
// is not kept: the class tells NotKept why.
#pragma once

#include "frontend/kept_set.h"
#include "frontend/not_kept.h"

namespace thunder::frontend {

class FreshObjects {
 public:
  explicit FreshObjects(NotKept& not_kept) : not_kept_(not_kept) {}

  bool has(PyObject* o) const { return fresh_.has(o); }
  /// The program made the object.
  void add(PyObject* o) { fresh_.add(o); }
  /// The object is fresh, or an iterator of C code that did not come from outside; no instruction shows who made one.
  bool made_inside(PyObject* o) const;
  /// Whether an object was there before this acquisition, and is the same in every call.
  bool is_settled(PyObject* o) const;

  /// Where iterators of C code are cannot be seen: those within a value that the program read are remembered.
  void came_from_outside(PyObject* value);
  /// What advances an iterator from outside can be neither taken back nor done again.
  void will_advance(PyObject* iterator);
  /// Nobody else holds the result of a call: the call made it, and so all in it that nobody else holds.
  void add_result(PyObject* result);

 private:
  NotKept& not_kept_;
  KeptSet fresh_;
  KeptSet iterators_;  // that came from outside
};

}  // namespace thunder::frontend
