#include "jit/cache.h"

#include <algorithm>

namespace thunder {

namespace {

constexpr size_t kMostEntries = 256;  // programs of a function; what changes in every call would fill the memory
constexpr size_t kMostKnown = 4096;   // rows of numbers that a function remembers an entry for

}  // namespace

std::shared_ptr<CacheEntry> Cache::find(const CallKey& key) {
  if (mode_ == CacheMode::NoCaching) return nullptr;
  if (mode_ == CacheMode::SameInput) return entries_.empty() ? nullptr : entries_.begin()->second;
  if (std::shared_ptr<CacheEntry> e = find_with(key, nullptr)) return e;
  std::string why;  // told of misses alone: saying it takes longer than checking
  if (std::shared_ptr<CacheEntry> e = find_with(key, &why)) return e;
  if (why.empty()) why = entries_.empty() || !last_ ? "the first call" : difference(key.facts(), last_->facts);
  last_miss_ = std::move(why);
  return nullptr;
}

// An entry for the call's very numbers, or one in which those that vary are symbols.
std::shared_ptr<CacheEntry> Cache::find_with(const CallKey& key, std::string* why) {
  if (!why)
    if (std::shared_ptr<CacheEntry> e = find_known(key)) return e;
  if (std::shared_ptr<CacheEntry> e = find_entry(key, why)) return e;
  key.undraw();
  if (!any_varying_) return nullptr;
  const CallKey& other = key.whole();
  if (!why)
    if (std::shared_ptr<CacheEntry> e = find_known(other)) return e;
  if (std::shared_ptr<CacheEntry> e = find_entry(other, why)) return e;
  key.undraw();
  return nullptr;
}

std::shared_ptr<CacheEntry> Cache::find_entry(const CallKey& key, std::string* why) {
  auto [first, last] = entries_.equal_range(key.hash);
  for (auto it = first; it != last; ++it) {
    const std::shared_ptr<CacheEntry>& e = it->second;
    if (!(e->fingerprint == key.fingerprint) || e->key != key.flat.key) continue;
    if (e->symbols && !e->symbols->hold(key.numbers, why)) continue;
    if (!e->guards_hold(key.flat, why)) {
      if (why) learned_.find_counter(e->environment);
      continue;
    }
    if (e->asks()) return find_by_values(key, it, why);
    if (!e->numbers_fit(key, why)) continue;
    if (e->symbols) {
      if (known_.size() >= kMostKnown) known_.clear();
      known_.emplace(key.hash ^ key.numbers.hash(), Known{key.numbers, e});
    }
    return e;
  }
  return nullptr;
}

std::shared_ptr<CacheEntry> Cache::find_known(const CallKey& key) {
  if (key.apart == CallKey::Apart::Nothing) return nullptr;
  auto [first, last] = known_.equal_range(key.hash ^ key.numbers.hash());
  for (auto it = first; it != last; ++it) {
    std::shared_ptr<CacheEntry> e = it->second.entry.lock();
    if (e && it->second.numbers == key.numbers && e->fingerprint == key.fingerprint && e->key == key.flat.key &&
        e->guards_hold(key.flat, nullptr))
      return e;
  }
  return nullptr;
}

// Entries that ask for values, in the order of entries; what other threads do to the cache meanwhile is nothing to it.
std::shared_ptr<CacheEntry> Cache::find_by_values(const CallKey& key, Entries::iterator from, std::string* why) {
  std::vector<std::shared_ptr<CacheEntry>> candidates;
  for (auto last = entries_.equal_range(key.hash).second; from != last; ++from) candidates.push_back(from->second);
  for (const std::shared_ptr<CacheEntry>& e : candidates) {
    if (!(e->fingerprint == key.fingerprint) || e->key != key.flat.key) continue;
    if (e->symbols && !e->symbols->hold(key.numbers, why)) continue;
    if (!e->guards_hold(key.flat, why)) {
      if (why) learned_.find_counter(e->environment);
      continue;
    }
    if (e->asks() && !e->values_hold(key, why)) continue;
    if (e->numbers_fit(key, why)) return e;
  }
  return nullptr;
}

std::vector<std::shared_ptr<CacheEntry>> Cache::alike(const CallKey& whole) {
  std::vector<std::shared_ptr<CacheEntry>> out;
  auto [first, last] = kinds_.equal_range(whole.hash);
  for (auto it = first; it != last;) {
    std::shared_ptr<CacheEntry> e = it->second.lock();
    if (!e) {
      it = kinds_.erase(it);
      continue;
    }
    ++it;
    // One that runs the function itself has no numbers, and what it was found in another environment says nothing of this one.
    if (e->eager || !(e->kind->fingerprint == whole.fingerprint) || e->kind->key != whole.flat.key) continue;
    if (e->environment.check(nullptr)) out.push_back(std::move(e));
  }
  return out;
}

std::shared_ptr<CacheEntry> Cache::keep(std::shared_ptr<CacheEntry> e, const CallKey& key, bool for_later) {
  last_ = e;
  if (!for_later) return e;
  writes_ = writes_ || e->takes_turns();  // before another thread finds it
  if (mode_ == CacheMode::NoCaching || mode_ == CacheMode::SameInput) entries_.clear();
  if (entries_.size() >= kMostEntries) {
    entries_.erase(std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
      return a.second->last_use < b.second->last_use;
    }));
    std::erase_if(kinds_, [](const auto& k) { return k.second.expired(); });
  }
  if (mode_ == CacheMode::VaryingValues) {
    const CallKey& other = key.exact ? key : key.whole();
    e->kind =
        std::make_unique<CacheEntry::Kind>(CacheEntry::Kind{other.fingerprint, other.flat.key, other.numbers, {}});
    kinds_.emplace(other.hash, e);
    any_varying_ = any_varying_ || e->symbols;
  }
  return entries_.emplace(key.hash, std::move(e))->second;
}

void Cache::clear() {
  entries_.clear();
  known_.clear();
  kinds_.clear();
  any_varying_ = false;
}

}  // namespace thunder
