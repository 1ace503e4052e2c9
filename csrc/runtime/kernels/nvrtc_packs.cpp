#include "runtime/kernels/nvrtc_packs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
  struct Pack {
    size_t work = 0;
    std::vector<size_t> kernels;
  };
  std::vector<Pack> packs((lengths.size() + k - 1) / k);
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  // The longest kernel first, each to the program that has least to do.
  for (size_t i : order) {
    Pack& least =
        *std::min_element(packs.begin(), packs.end(), [](const Pack& a, const Pack& b) { return a.work < b.work; });
    least.work += lengths[i] + kEach;
    least.kernels.push_back(i);
  }
  std::stable_sort(packs.begin(), packs.end(), [](const Pack& a, const Pack& b) { return a.work > b.work; });
  std::vector<std::vector<size_t>> out;
  for (Pack& pack : packs) {
    if (pack.kernels.empty()) continue;
    std::sort(pack.kernels.begin(), pack.kernels.end());
    out.push_back(std::move(pack.kernels));
  }
  return out;
}

}  // namespace thunder
