#include "jit/refusals.h"

namespace thunder {

void Refusals::add(const std::shared_ptr<CacheEntry>& e, const CallKey& key, bool counts) {
  const uint64_t kind = cache_.kind_of(key);
  in_a_row_ = counts ? in_a_row_ + 1 : 0;
  last_ = in_a_row_ >= kInARow ? e : nullptr;
  if (!counts) {
    kinds_.erase(kind);
    return;
  }
  if (kinds_.size() >= kMostKinds && !kinds_.contains(kind)) kinds_.clear();
  Kind& like = kinds_[kind];
  if (like.last && like.last->eager->why != e->eager->why) like.patience = Kind().patience;
  like.last = e;
}

void Refusals::end_row(const CallKey& key) {
  in_a_row_ = 0;
  kinds_.erase(cache_.kind_of(key));
}

const CacheEntry* Refusals::of(const CallKey& key) {
  if (last_ && last_->environment.check(nullptr)) return last_.get();
  if (kinds_.empty()) return nullptr;
  const auto like = kinds_.find(cache_.kind_of(key));
  if (like == kinds_.end() || like->second.last->environment.check(nullptr)) return nullptr;
  return like->second.patience.may_compile() ? nullptr : like->second.last.get();
}

}  // namespace thunder
