// Whether the user's function may stand for a program that raises.
#pragma once

#include "core/trace.h"
#include "jit/cache_entry.h"
#include "jit/user_function.h"

namespace thunder {

/// Finds what the run of an entry draws and communicates, and whether the function can run in its place.  `again`: the
/// program may be acquired a second time, and is in no language of its own.
void find_repeatable(CacheEntry& e, const UserFunction& function, const Trace& computation, bool again);

}  // namespace thunder
