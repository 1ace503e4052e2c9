// Prefetching of the memory that a check of guards is about to read.
//
// A training step evicts this memory from the processor's cache.  A chain of loads, each of which gives the address of
// the next, then takes one cache miss after the other.  Prefetches of known addresses, in ascending order, overlap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace thunder::frontend {

class CacheLines {
 public:
  void clear() { lines_.clear(); }
  void add(const void* object, size_t bytes) {
    if (bytes == 0) return;
    auto first = reinterpret_cast<uintptr_t>(object);
    for (uintptr_t line = first / kLine; line <= (first + bytes - 1) / kLine; ++line) lines_.push_back(line * kLine);
  }
  /// After the last add().
  void seal() {
    std::sort(lines_.begin(), lines_.end());
    lines_.erase(std::unique(lines_.begin(), lines_.end()), lines_.end());
  }
  /// Harmless where an object is gone by now.
  void prefetch() const {
    for (uintptr_t line : lines_) __builtin_prefetch(reinterpret_cast<const void*>(line));
  }

 private:
  static constexpr uintptr_t kLine = 64;
  std::vector<uintptr_t> lines_;
};

}  // namespace thunder::frontend
