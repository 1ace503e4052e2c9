#include "runtime/kernels/nvrtc_packs.h"

#include <algorithm>
#include <cmath>

namespace thunder {
namespace {

// More would save nothing worth having, and a kernel that is wanted alone would bring more bytes from the disk.
constexpr size_t kMost = 16;
// What a kernel costs beyond its length, as bytes of text: an empty one takes a sixth of an average one of 2 KB.
constexpr size_t kEach = 400;

/// How many kernels a program has on the average.
size_t kernels_of_a_program(size_t kernels, size_t threads) {
  // n kernels by k: the lock is held n / k times for 28 ms, and a thread works for k times 80 ms on what it gets last.
  // The sum is least where k * k = n / 3.  Few threads are kept busy by fewer and larger programs.
  const double least = std::sqrt(static_cast<double>(kernels) / 3);
  const double few_threads = static_cast<double>(kernels) / static_cast<double>(4 * std::max<size_t>(1, threads));
  return std::clamp<size_t>(static_cast<size_t>(std::lround(std::max(least, few_threads))), 1, kMost);
}

}  // namespace

std::vector<std::vector<size_t>> packs_of(const std::vector<size_t>& lengths, size_t threads) {
  if (lengths.empty()) return {};
  const size_t k = kernels_of_a_program(lengths.size(), threads);
  size_t programs = (lengths.size() + k - 1) / k, left = lengths.size() * kEach;
  for (size_t length : lengths) left += length;
  std::vector<std::vector<size_t>> out(1);
  size_t work = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const size_t own = lengths[i] + kEach, most = (left + work) / programs;
    // The next program, where this one is nearer to its part without the kernel than with it.
    if (!out.back().empty() && programs > 1 && work + own > most && work + own - most > most - std::min(most, work)) {
      out.emplace_back();
      --programs;
      work = 0;
    }
    out.back().push_back(i);
    work += own;
    left -= own;
  }
  return out;
}

}  // namespace thunder
