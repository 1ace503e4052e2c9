// Which numbers of a call that no program fits become symbols, by the programs of calls that are like it.
#pragma once

#include <string>

#include "jit/cache.h"
#include "jit/varying.h"

namespace thunder {

struct VaryingNumbers {
  Varying varying;
  std::string not_symbolic;  ///< why what varies is not to be symbols, where an entry tells; else empty
  std::string text;          ///< what varies, and how
};

/// `whole`: the call's key with all numbers apart.
VaryingNumbers find_varying_numbers(Cache& cache, const CallKey& whole);

}  // namespace thunder
