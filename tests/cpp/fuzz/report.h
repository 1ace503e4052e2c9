// How many random programs a test makes, and what it says of them.  THUNDER_FUZZ=10000 makes more of them (`make
// fuzz`), THUNDER_FUZZ_SEED others, THUNDER_FUZZ_SHOW shows more findings.
#pragma once

#include <doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace thunder::fuzz {

inline int64_t from_environment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

inline int64_t programs() { return from_environment("THUNDER_FUZZ", 1000); }
inline uint64_t first_seed() { return static_cast<uint64_t>(from_environment("THUNDER_FUZZ_SEED", 0)); }

/// Counts findings and shows the first few in full: one bug gives hundreds.
class Report {
 public:
  void add(const std::string& finding) {
    ++total_;
    if (shown_++ < from_environment("THUNDER_FUZZ_SHOW", 5)) MESSAGE(finding);
  }
  void add(const std::vector<std::string>& findings) {
    for (const std::string& f : findings) add(f);
  }
  int64_t total() const { return total_; }

 private:
  int64_t total_ = 0, shown_ = 0;
};

}  // namespace thunder::fuzz
