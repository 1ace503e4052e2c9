#include "fuser/emit.h"

namespace thunder::fuser {

// A sum over many runs is two numbers: `high`, and in `low` what `high` lost to rounding (Knuth, The Art of Computer
// Programming, volume 2, 4.2.2, theorem B).  An infinite or undefined sum has lost nothing.
const std::string& total_prelude() {
  static const std::string text = R"(template <class T> TH_FN void th_total(T& high, T& low, T x) {
  const T sum = high + x, part = sum - high;
  low += (high - (sum - part)) + (x - part);
  high = sum;
}
template <class T> TH_FN T th_whole(T high, T low) { return low == low ? high + low : high; }
)";
  return text;
}

}  // namespace thunder::fuser
