#include "runtime/memory/block_cache.h"

#include <algorithm>

namespace thunder {

void* BlockCache::take(size_t bytes) {
  Blocks found,
      evicted;  // what is evicted goes back to the system when the lock is free again, but before more is made
  {
    std::lock_guard lock(mutex_);
    if (!used_.exchange(true)) spans_[0].least = 0;
    const bool hit = find(bytes, found);
    live_ += hit ? found.front().bytes : bytes;
    spans_[0].most = std::max(spans_[0].most, live_);
    if (!hit) shrink(allowed() - live_, evicted);
  }
  evicted.clear();
  if (found.empty()) found.push_back(make(bytes));
  void* data = found.front().memory.data;
  std::lock_guard lock(mutex_);
  auto [place, is_new] = by_data_.try_emplace(data, found.begin());
  if (!is_new) {
    // The system has given out this memory before, and its holder has freed it without telling.
    live_ -= place->second->bytes;
    place->second->memory.owner.release();
    live_blocks_.erase(place->second);
    place->second = found.begin();
  }
  live_blocks_.splice(live_blocks_.end(), found);
  return data;
}

bool BlockCache::find(size_t bytes, Blocks& out) {
  auto found = by_size_.lower_bound(bytes);
  if (found == by_size_.end() || found->first > bytes + bytes / 4) return false;
  cached_ -= found->first;
  ++reused_;
  out.splice(out.end(), cached_blocks_, found->second);
  by_size_.erase(found);
  return true;
}

BlockCache::Block BlockCache::make(size_t bytes) {
  try {
    Memory memory = [&] {
      try {
        return make_(bytes);
      } catch (...) {
        clear();
      }
      return make_(bytes);
    }();
    std::lock_guard lock(mutex_);
    ++made_;
    return {std::move(memory), bytes};
  } catch (...) {
    std::lock_guard lock(mutex_);
    live_ -= bytes;
    throw;
  }
}

void BlockCache::give_back(void* data) {
  Blocks evicted;
  std::lock_guard lock(mutex_);
  auto found = by_data_.find(data);
  auto place = found->second;
  by_data_.erase(found);
  const size_t bytes = place->bytes;
  live_ -= bytes;
  place->run = run_;
  cached_blocks_.splice(cached_blocks_.end(), live_blocks_, place);
  by_size_.emplace_hint(by_size_.lower_bound(bytes), bytes, place);
  cached_ += bytes;
  shrink(allowed() - std::min(allowed(), least()), evicted);
}

void BlockCache::begin_run() {
  if (!used_.load(std::memory_order_relaxed)) return;
  Blocks evicted;
  std::lock_guard lock(mutex_);
  if (++run_ % (kRuns / 2) == 0) {
    spans_[1] = spans_[0];
    spans_[0] = {live_, live_};
  }
  spans_[0].least = std::min(spans_[0].least, live_);
  while (!cached_blocks_.empty() && cached_blocks_.front().run + kRuns < run_) evict_oldest(evicted);
}

void BlockCache::evict_oldest(Blocks& out) {
  auto oldest = cached_blocks_.begin();
  auto [first, last] = by_size_.equal_range(oldest->bytes);
  by_size_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == oldest; }));
  cached_ -= oldest->bytes;
  out.splice(out.end(), cached_blocks_, oldest);
}

void BlockCache::shrink(size_t bytes, Blocks& out) {
  while (cached_ > bytes) evict_oldest(out);
}

void BlockCache::clear() {
  Blocks evicted;
  std::lock_guard lock(mutex_);
  shrink(0, evicted);
}

size_t BlockCache::allowed() const {
  const size_t most = std::max(spans_[0].most, spans_[1].most);
  return most + most / 8;
}
size_t BlockCache::least() const { return std::min(spans_[0].least, spans_[1].least); }

BlockCache::Stats BlockCache::stats() const {
  std::lock_guard lock(mutex_);
  return {live_, cached_, made_, reused_};
}

}  // namespace thunder
