#include "jit/cache_entry.h"

namespace thunder {

// Later calls with the same key, in the same environment, need not find that out again.
void CacheEntry::be_eager(const CallKey& of, const NeedsEager& reason) {
  eager = Eager{reason.why, reason.warns, static_cast<bool>(reason.tensor)};
  symbols = nullptr;
  effects.clear();
  be_for(of);
  if (reason.tensor) environment.add_tensor(reason.tensor.get());
}

}  // namespace thunder
