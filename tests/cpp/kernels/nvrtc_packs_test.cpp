#include "runtime/kernels/nvrtc_packs.h"

#include <doctest.h>

#include <numeric>

using namespace thunder;

namespace {

/// Each index once, those of a program ascending; the programs' work.
std::vector<size_t> check(const std::vector<size_t>& lengths, size_t threads) {
  std::vector<int> seen(lengths.size());
  std::vector<size_t> work;
  for (const std::vector<size_t>& pack : packs_of(lengths, threads)) {
    REQUIRE(!pack.empty());
    CHECK(pack.size() <= lengths.size());
    work.push_back(0);
    for (size_t i = 0; i < pack.size(); ++i) {
      CHECK((i == 0 || pack[i - 1] < pack[i]));
      ++seen.at(pack[i]);
      work.back() += lengths[pack[i]];
    }
  }
  for (int times : seen) CHECK(times == 1);
  return work;
}

}  // namespace

TEST_CASE("programs of kernels: none, one, few") {
  CHECK(packs_of({}, 16).empty());
  CHECK(packs_of({100}, 16).size() == 1);
  CHECK(packs_of({100, 100, 100}, 16).size() == 3);
  CHECK(packs_of({100}, 0).size() == 1);
}

TEST_CASE("programs of kernels: many share, and more so for few threads") {
  const std::vector<size_t> lengths(288, 2000);
  const size_t many = packs_of(lengths, 16).size(), few = packs_of(lengths, 2).size();
  CHECK(many == 29);
  CHECK(few == 18);
  for (size_t threads : {1, 2, 16, 200}) check(lengths, threads);
}

TEST_CASE("programs of kernels: a long one has a program for itself, the work is even") {
  std::vector<size_t> lengths(60, 1000);
  lengths[17] = 100000;
  const auto packs = packs_of(lengths, 8);
  CHECK(packs.front() == std::vector<size_t>{17});
  const std::vector<size_t> work = check(lengths, 8);
  for (size_t i = 1; i < work.size(); ++i) CHECK(work[i] <= work[1]);
  CHECK(work.back() + 1000 >= work[1]);
}
