// Which of the dicts that a guard depends on were written to since it last looked.
//
//   DictWrites writes;
//   size_t i = writes.watch(dict);
//   ...
//   bool ok = writes.visit([&](size_t i) { return still_fine(i); });   // only the dicts that were written to
//
// From Python 3.12 the interpreter calls back when a watched dict is about to change, so that asking costs one load,
// however many dicts there are.  Before, every dict carries a stamp that changes with each write: one load a dict, and
// after a real step one cache miss a dict.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "frontend/cache_lines.h"
#include "python/ref.h"

namespace thunder::frontend {

class DictWrites {
 public:
  DictWrites();
  ~DictWrites();
  DictWrites(DictWrites&&) noexcept;
  DictWrites& operator=(DictWrites&&) noexcept;

  /// The dict's index: how many were watched before.  The caller keeps the dict alive.
  size_t watch(PyObject* dict);

  /// Calls `accept(index)` for each dict that was written to since accept() last said true for it; stops at the first
  /// that says false, which is asked about again the next time.
  template <class Accept>
  bool visit(Accept&& accept) {
    if (!any()) return true;
    while (std::optional<size_t> i = next()) {
      if (!accept(*i)) return false;
      accepted();
    }
    return true;
  }

  /// The memory that visit() reads while nothing is written to.
  void add_lines(CacheLines& lines);

 private:
  struct State;

  bool any() const;              // false: certainly nothing was written to
  std::optional<size_t> next();  // nothing at the end
  void accepted();               // what next() gave

  std::unique_ptr<State> state_;
};

}  // namespace thunder::frontend
