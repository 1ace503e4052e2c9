// Memory that a check is about to read, fetched at once.
//
// After a real step none of what guards read is in the processor's cache, and where one load gives the address of the
// next, they wait for each other.  Told in advance, and in the order of addresses, they overlap.
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
