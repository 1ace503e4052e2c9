#include "runtime/kernels/nvrtc_packs.h"

#include <doctest.h>

#include <algorithm>
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

TEST_CASE("programs of kernels: a long one has a program for itself, the work of the others is even") {
  std::vector<size_t> lengths(60, 1000);
  lengths[17] = 100000;
  const auto packs = packs_of(lengths, 8);
  CHECK(std::count(packs.begin(), packs.end(), std::vector<size_t>{17}) == 1);
  for (size_t work : check(lengths, 8)) CHECK((work == 100000 || work <= 10000));
}

TEST_CASE("programs of kernels: those that follow each other") {
  std::vector<size_t> lengths;
  for (size_t i = 0; i < 200; ++i) lengths.push_back(500 + i * 7919 % 5000);
  size_t next = 0;
  for (const std::vector<size_t>& pack : packs_of(lengths, 16))
    for (size_t i : pack) CHECK(i == next++);
  CHECK(next == lengths.size());
  const std::vector<size_t> work = check(lengths, 16);
  const size_t mean = std::accumulate(work.begin(), work.end(), size_t{0}) / work.size();
  for (size_t w : work) CHECK(w <= 2 * mean);
}
