#include "fuser/emit.h"

namespace thunder::fuser {

// A sum over many runs is two numbers: `high`, and in `low` what `high` lost to rounding (Knuth, The Art of Computer
// Programming, volume 2, 4.2.2, theorem B).  What `low` has gathered goes to `high` at once: losses of one sign would
// add up to a sum with roundings of its own.  An infinite or undefined sum has lost nothing.
const std::string& total_prelude() {
  static const std::string text = R"(template <class T> TH_FN void th_total(T& high, T& low, T x) {
  const T sum = high + x, part = sum - high;
  const T lost = low + ((high - (sum - part)) + (x - part));
  high = lost == lost ? sum + lost : sum;
  low = lost - (high - sum);
}
template <class T> TH_FN T th_whole(T high, T low) { return low == low ? high + low : high; }
TH_FN long long th_column_bytes(long long n) { return (n + 63) / 64 * 64; }
)";
  return text;
}

}  // namespace thunder::fuser
