#include "runtime/memory/block_cache.h"

#include <doctest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <thread>
#include <vector>

namespace thunder {
namespace {

std::atomic<int64_t> held{0};  // blocks of the system
int failures = 0;              // how often it has none left, from now on

BlockCache::Memory from_system(size_t bytes) {
  if (failures > 0) {
    --failures;
    throw std::bad_alloc();
  }
  ++held;
  void* data = std::malloc(bytes);
  return {data, {data, [](void* p) {
                   --held;
                   std::free(p);
                 }}};
}

// One step of a program that needs these blocks at once.
void step(BlockCache& cache, const std::vector<size_t>& sizes) {
  cache.begin_run();
  std::vector<void*> blocks;
  for (size_t n : sizes) blocks.push_back(cache.take(n));
  for (void* b : blocks) cache.give_back(b);
}

}  // namespace

TEST_CASE("block cache: what was given back is found again, the last one first") {
  BlockCache cache(from_system);
  cache.begin_run();
  void *a = cache.take(1000), *b = cache.take(1000);
  CHECK(a != b);
  CHECK(cache.stats().live == 2000);
  cache.give_back(a);
  cache.give_back(b);
  CHECK(cache.stats().cached == 2000);
  CHECK(cache.take(900) == b);
  CHECK(cache.take(1000) == a);
  CHECK(cache.stats().made == 2);
  CHECK(cache.stats().reused == 2);
  cache.give_back(a);
  cache.give_back(b);
  cache.clear();
  CHECK(cache.stats().cached == 0);
  CHECK(held == 0);
}

TEST_CASE("block cache: a block is at most a quarter larger than asked for") {
  BlockCache cache(from_system);
  cache.begin_run();
  void* large = cache.take(1251);
  cache.give_back(large);
  void* small = cache.take(1000);
  CHECK(cache.stats().reused == 0);
  cache.give_back(small);
  cache.clear();
  CHECK(held == 0);
}

TEST_CASE("block cache: no more memory than what was needed at once, and an eighth") {
  BlockCache cache(from_system);
  std::mt19937 random(3);
  size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<size_t> sizes(random() % 8 + 1);
    size_t sum = 0;
    for (size_t& n : sizes) sum += n = random() % 5000 + 1;
    // A block that is found may be a quarter too large.
    most = std::max(most, sum + sum / 4);
    step(cache, sizes);
    CHECK(cache.stats().live == 0);
    CHECK(cache.stats().cached <= most + most / 8);
  }
  cache.clear();
  CHECK(held == 0);
}

TEST_CASE("block cache: the same step again needs nothing new") {
  BlockCache cache(from_system);
  for (int i = 0; i < 3; ++i) step(cache, {1000, 3000, 3000, 500});
  CHECK(cache.stats().made == 4);
  CHECK(cache.stats().reused == 8);
  cache.clear();
}

TEST_CASE("block cache: what callers keep beyond a run leaves nothing behind") {
  BlockCache cache(from_system);
  step(cache, {1000});
  std::vector<void*> kept;
  for (uint64_t i = 0; i < 4 * BlockCache::kRuns; ++i) {
    cache.begin_run();
    kept.push_back(cache.take(1000));
  }
  for (void* b : kept) cache.give_back(b);
  // An eighth of what was live, and the growth of the last spans.
  CHECK(cache.stats().cached <= 1000 * (4 * BlockCache::kRuns / 8 + BlockCache::kRuns + 1));
  cache.clear();
  CHECK(held == 0);
}

TEST_CASE("block cache: what no run asks for goes back to the system") {
  BlockCache cache(from_system);
  step(cache, {100000});
  for (uint64_t i = 0; i <= BlockCache::kRuns; ++i) step(cache, {100});
  CHECK(cache.stats().cached == 100);
  CHECK(held == 1);
  cache.clear();
}

TEST_CASE("block cache: where the system has no memory left, what is kept goes back first") {
  BlockCache cache(from_system);
  step(cache, {1000});
  failures = 1;
  void* b = cache.take(5000);
  CHECK(held == 1);
  failures = 2;
  CHECK_THROWS_AS(cache.take(7000), std::bad_alloc);
  CHECK(cache.stats().live == 5000);
  cache.give_back(b);
  cache.clear();
  CHECK(held == 0);
}

TEST_CASE("block cache: a holder may free the memory itself") {
  static char memory[4000];
  static int freed = 0;
  BlockCache cache(+[](size_t) -> BlockCache::Memory { return {memory, {memory, [](void*) { ++freed; }}}; });
  cache.begin_run();
  // The system gives out the address again.
  CHECK(cache.take(4000) == cache.take(4000));
  CHECK(freed == 0);
  CHECK(cache.stats().live == 4000);
  cache.give_back(memory);
  cache.clear();
  CHECK(freed == 1);
}

TEST_CASE("block cache: threads") {
  BlockCache cache(from_system);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::pair<void*, size_t>> mine;
      for (int i = 0; i < 3000; ++i) {
        if (i % 16 == 0) cache.begin_run();
        if (i % 500 == 0) cache.clear();
        if (mine.size() < 10 && random() % 2) {
          const size_t n = random() % 3000 + 1;
          mine.emplace_back(cache.take(n), n);
          std::memset(mine.back().first, t, n);
        } else if (!mine.empty()) {
          auto [data, n] = mine.back();
          mine.pop_back();
          for (size_t k = 0; k < n; ++k) wrong += static_cast<char*>(data)[k] != t;
          cache.give_back(data);
        }
      }
      for (auto [data, n] : mine) cache.give_back(data);
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(cache.stats().live == 0);
  cache.clear();
  CHECK(held == 0);
}

}  // namespace thunder
