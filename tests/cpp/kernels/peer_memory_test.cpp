// Collectives by copies, issued to the fake driver.
#include "runtime/kernels/peer_memory.h"

#include <doctest.h>

#include <vector>

#include "core/error.h"
#include "kernels/fake_driver.h"

using namespace thunder;
using namespace kernel_test;
using peers::PeerLayout;
using peers::PeerMemory;

namespace {

const PeerLayout kLayout{.world = 2, .inbox_bytes = 4096, .outbox_bytes = 4096};

struct Pair {
  std::vector<unsigned char> shared[2] = {std::vector<unsigned char>(kLayout.bytes()),
                                          std::vector<unsigned char>(kLayout.bytes())};
  std::vector<uint64_t> bases = {reinterpret_cast<uint64_t>(shared[0].data()),
                                 reinterpret_cast<uint64_t>(shared[1].data())};
  PeerMemory first{kLayout, 0, 0, bases}, second{kLayout, 1, 1, bases};
};

}  // namespace

TEST_CASE("peer memory: a gather, issued by one process after the other") {
  if (!can_fake()) return;
  const int status = with_fake_driver([](const FakeDriver& driver) {
    std::string why;
    if (!peers::available(&why)) return 1;
    Pair pair;
    if (driver.variable<int>("streams") != 2 * static_cast<int>(peers::kLanes)) return 2;
    std::vector<int> a(300, 5), b(300, 7), out(600);
    char stream = 0;
    const auto gather = [](peers::Steps& s) { return s.all_gather({1200}, {false}); };
    // The first takes before the second has staged: on a GPU its stream would wait.
    pair.first.run(&stream, {.sources = {a.data()}, .results = {out.data()}}, gather);
    if (driver.variable<int>("untimely") == 0) return 3;
    driver.variable<int>("untimely") = 0;
    const auto done = pair.second.run(&stream, {.sources = {b.data()}, .results = {out.data()}}, gather);
    for (int i = 0; i < 600; ++i)
      if (out[static_cast<size_t>(i)] != (i < 300 ? 5 : 7)) return 4;
    if (driver.variable<int>("untimely") != 0 || !done->query()) return 5;
    const int ordered = driver.variable<int>("ordered");
    done->block(&stream);
    return driver.variable<int>("ordered") == ordered + 1 ? 0 : 6;
  });
  CHECK(status == 0);
}

TEST_CASE("peer memory: a gather of what both reach, whose copies are one call") {
  if (!can_fake()) return;
  const int status = with_fake_driver([](const FakeDriver& driver) {
    Pair pair;
    std::vector<int> a(300, 5), b(300, 7), out(600), c(2, 1), d(2, 2), also(4);
    const auto at = [](const std::vector<int>& v) { return reinterpret_cast<uint64_t>(v.data()); };
    const std::vector<std::vector<uint64_t>> reached = {{at(a), at(b)}, {at(c), at(d)}};
    const auto gather = [](peers::Steps& s) { return s.all_gather({1200, 8}, {true, true}); };
    pair.first.run(nullptr, {.sources = {a.data(), c.data()}, .reached = reached, .results = {out.data(), also.data()}},
                   gather);
    for (int i = 0; i < 600; ++i)
      if (out[static_cast<size_t>(i)] != (i < 300 ? 5 : 7)) return 1;
    if (also != std::vector<int>{1, 1, 2, 2}) return 2;
    // The other's parts, and this process's.
    return driver.variable<int>("batches") == 2 ? 0 : 3;
  });
  CHECK(status == 0);
}

TEST_CASE("peer memory: after release() nothing waits") {
  if (!can_fake()) return;
  const int status = with_fake_driver([](const FakeDriver& driver) {
    Pair pair;
    pair.first.release();
    std::vector<int> a(3000), out(6000);
    pair.first.run(nullptr, {.sources = {a.data()}, .results = {out.data()}},
                   [](peers::Steps& s) { return s.all_gather({12000}, {false}); });
    return driver.variable<int>("awaited") > 0 && driver.variable<int>("untimely") == 0 ? 0 : 1;
  });
  CHECK(status == 0);
}

TEST_CASE("peer memory: no collectives of more processes than a kernel takes") {
  if (!can_fake()) return;
  const int status = with_fake_driver([](const FakeDriver&) {
    try {
      const PeerMemory memory({.world = 17}, 0, 0, std::vector<uint64_t>(17));
    } catch (const Error& e) {
      return std::string(e.what()).find("at most 16 processes") != std::string::npos ? 0 : 1;
    }
    return 2;
  });
  CHECK(status == 0);
}
