// A set of Python objects by their addresses.
//
// The set owns its objects, so that no other object gets one of the addresses.  It calls nothing.
#pragma once

#include <unordered_set>
#include <vector>

#include "python/ref.h"

namespace thunder::frontend {

class KeptSet {
 public:
  /// Whether the object is new.
  bool add(PyObject* o) {
    const bool is_new = known_.insert(o).second;
    if (is_new) kept_.push_back(Ref::borrow(o));
    return is_new;
  }
  bool has(PyObject* o) const { return known_.count(o) != 0; }
  /// In the order in which they were added.
  const std::vector<Ref>& objects() const { return kept_; }

 private:
  std::unordered_set<PyObject*> known_;
  std::vector<Ref> kept_;
};

}  // namespace thunder::frontend
