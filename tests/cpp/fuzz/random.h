// A small generator that gives the same numbers on every platform (the distributions of <random> do not).
#pragma once

#include <cstdint>
#include <vector>

namespace thunder::fuzz {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x2545F4914F6CDD1Dull + 0x1234567ull) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  /// 0 <= result < n
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  /// low <= result <= high
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  double uniform(double low, double high) { return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53); }
  bool chance(double p) { return uniform(0, 1) < p; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
  }

 private:
  uint64_t state_;
};

}  // namespace thunder::fuzz
