// Calls for which no program could be acquired: which later calls are acquired all the same.
//
// An acquisition that ends in a refusal costs as much as one that ends in a program, and gives nothing.  A Refusals owns
// what the last refusals were.  A refusal stands for later calls in the environment that it was found in, whatever their
// arguments are (their sizes, say), once there were kInARow in a row.  In another environment it stands for calls of its
// own kind, more and more of them: the reason may come before what the call reads of an environment that never is the same
// again (gradients, counters).
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "jit/cache.h"
#include "jit/patience.h"

namespace thunder {

class Refusals {
 public:
  explicit Refusals(const Cache& cache) : cache_(cache) {}

  /// `e` says why the call was refused.  `counts`: other calls may be, for the same reason.
  void add(const std::shared_ptr<CacheEntry>& e, const CallKey& key, bool counts);
  /// A program was acquired for the call.
  void end_row(const CallKey& key);
  /// The refusal that stands for the call, which no program fits; null: none does.
  const CacheEntry* of(const CallKey& key);
  /// Counts a call whose acquisition raised what the function itself did not raise.  Whether there were too many.
  bool add_refuted() { return ++refuted_ >= kInARow; }
  /// Forgets the refusals by kinds of calls.
  void clear() { kinds_.clear(); }

 private:
  static constexpr size_t kInARow = 3;
  static constexpr size_t kMostKinds = 64;

  // Calls that are alike but for their numbers, the last of which was refused.
  struct Kind {
    std::shared_ptr<CacheEntry> last;
    Patience patience{2};  // with those in which the environment differs
  };

  const Cache& cache_;
  size_t in_a_row_ = 0;
  std::shared_ptr<CacheEntry> last_;          // of a row that is long enough
  std::unordered_map<uint64_t, Kind> kinds_;  // by keys without numbers
  size_t refuted_ = 0;
};

}  // namespace thunder
