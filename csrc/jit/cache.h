// The cache of a compiled function: the entries, and the look-up of a call.
//
// A Cache owns the entries by their keys, the tuples of numbers for which an entry is known, and the kinds of calls that are
// alike but for their numbers.  A call has two keys with varying values: entries for its very numbers come first, then
// those in which what varied is a symbol (jit/varying.h).  The cache tells why the last look-up found nothing.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/cache_entry.h"
#include "jit/call_key.h"
#include "jit/learned.h"
#include "jit/user_function.h"

namespace thunder {

class Cache {
 public:
  Cache(CacheMode mode, Learned& learned) : mode_(mode), learned_(learned) {}
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  CacheMode mode() const { return mode_; }
  CallKey key_of(const CallArguments& args) const {
    using Apart = CallKey::Apart;
    return CallKey(args, mode_ == CacheMode::SymbolicValues ? Apart::Some : Apart::Nothing, learned_);
  }
  /// The hash of the key without numbers, where the cache looks for such.
  uint64_t kind_of(const CallKey& key) const {
    return mode_ == CacheMode::VaryingValues && !key.exact ? key.whole().hash : key.hash;
  }

  /// Null: none fits, and last_miss() says why.
  std::shared_ptr<CacheEntry> find(const CallKey& key);
  /// Entries for calls that are like this one but for their numbers.
  std::vector<std::shared_ptr<CacheEntry>> alike(const CallKey& whole);
  /// `for_later`: whether it is good for more than its call; else it is only the last one.
  std::shared_ptr<CacheEntry> keep(std::shared_ptr<CacheEntry> e, const CallKey& key, bool for_later);
  void clear();

  /// Whether a program in the cache writes to anything besides its own tensors.
  bool writes() const { return writes_; }
  /// The one that keep() was given last; null before the first.
  const CacheEntry* last() const { return last_.get(); }
  const std::string& last_miss() const { return last_miss_; }
  /// Says what is done about it.
  void add_to_miss(const std::string& text) { last_miss_ += text; }

 private:
  // An entry that was found to take these numbers.
  struct Known {
    Numbers numbers;
    std::weak_ptr<CacheEntry> entry;
  };
  using Entries = std::unordered_multimap<uint64_t, std::shared_ptr<CacheEntry>>;
  std::shared_ptr<CacheEntry> find_known(const CallKey& key);
  /// `why`: null, or told why there is none.
  std::shared_ptr<CacheEntry> find_with(const CallKey& key, std::string* why);
  std::shared_ptr<CacheEntry> find_entry(const CallKey& key, std::string* why);
  std::shared_ptr<CacheEntry> find_by_values(const CallKey& key, Entries::iterator from, std::string* why);

  const CacheMode mode_;
  Learned& learned_;
  Entries entries_;
  /// Which entry takes which numbers, so that a hit evaluates no guards on sizes.
  std::unordered_multimap<uint64_t, Known> known_;
  std::unordered_multimap<uint64_t, std::weak_ptr<CacheEntry>> kinds_;  // by keys without numbers, with varying values
  bool any_varying_ = false;                                            // whether an entry has symbols for what varied
  bool writes_ = false;
  std::shared_ptr<const CacheEntry> last_;
  std::string last_miss_;
};

}  // namespace thunder
