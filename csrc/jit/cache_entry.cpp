#include "jit/cache_entry.h"

namespace thunder {

// Later calls with the same key, in the same environment, need not find that out again.
void CacheEntry::be_eager(const CallKey& of, const NeedsEager& reason) {
  eager = reason.why;
  eager_warns = reason.warns;
  symbols = nullptr;
  effects.clear();
  be_for(of);
  eager_for_tensor = static_cast<bool>(reason.tensor);
  if (eager_for_tensor) environment.add_tensor(reason.tensor.get());
}

}  // namespace thunder
