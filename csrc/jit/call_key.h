// What a call looks up in the cache.
//
// A CallKey owns the flattened arguments, the fingerprint of their tensors and of global state, and what the call finds
// out about its tensors' values on the way.  It borrows the arguments, for one call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frontend/needs_eager.h"
#include "frontend/structure.h"
#include "jit/explain.h"
#include "jit/learned.h"
#include "jit/symbolic.h"
#include "jit/value_checks.h"
#include "jit/varying.h"
#include "runtime/guards.h"

namespace thunder {

struct CacheEntry;

/// A vectorcall's arguments.
struct CallArguments {
  PyObject* const* args;
  size_t nargs;
  PyObject* names;  ///< of keywords, or null
  Py_ssize_t num_names() const { return names ? PyTuple_GET_SIZE(names) : 0; }
};

struct CallKey {
  /// What of the call's numbers stands apart: nothing; what symbolic values leave out; all of them.
  enum class Apart : uint8_t { Nothing, Some, All } apart;

  CallKey(const CallArguments& a, Apart numbers_apart, const Learned& of_function);

  /// Why no program takes one of the tensors; nothing: programs take them.
  std::optional<NeedsEager> refused_arguments() const;
  /// Restores the random number generators to their states before the draws for entries whose checks failed, so that
  /// the same numbers are drawn again.
  void undraw() const;
  /// The key of the same call with all numbers apart.
  const CallKey& whole() const;
  /// The key that gives an entry's program its numbers: whole() for an entry with symbols, else this key.
  const CallKey& of(const CacheEntry& e) const;
  /// What the text of the arguments is by now.
  std::string text_now() const;
  /// To say how another call differs.
  CallFacts facts() const;
  /// What each of the ints is.
  std::vector<std::string> labels() const;

  CallArguments args;
  const Learned* learned;
  frontend::Flattened flat;
  Fingerprint fingerprint;
  uint64_t hash = 0;
  /// With symbolic values: the ints and floats that the key leaves out, and how tensors use them.
  Numbers numbers;
  std::vector<std::optional<SymbolicLayout>> layouts;
  std::vector<TensorPlace> places;  ///< of the tensors whose numbers stand apart, if all do
  /// What the call has found out about its tensors' values; null where no entry asked.
  mutable std::unique_ptr<ValueAnswers> answers;
  /// A tensor that no program takes, borrowed, or null.  The key ends there, as it does where somebody watches.
  PyObject* other_kind = nullptr;
  bool knows_autograd = false;     ///< one of the tensors does
  const CallKey* exact = nullptr;  ///< of the key with all numbers apart: the call's own

 private:
  void add_layouts();

  mutable std::unique_ptr<CallKey> whole_;  // null before it is asked for
};

}  // namespace thunder
