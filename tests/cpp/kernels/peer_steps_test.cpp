#include "runtime/kernels/peer_steps.h"

#include <doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "core/error.h"

using namespace thunder;
using namespace thunder::peers;

namespace {

enum class What { Gather, Scatter, Reduce };

using Words = std::vector<uint32_t>;
using Bytes = std::vector<unsigned char>;

unsigned char* bytes_of(Words& w) { return reinterpret_cast<unsigned char*>(w.data()); }

/// Processes whose streams advance in a random order, one step at a time.
struct Machine {
  struct Process {
    Steps steps;
    Bytes shared;
    std::vector<Words> sources, results;
    std::vector<Step> streams[kLanes];
    size_t at[kLanes] = {};
    /// Collectives that are not done: where their steps end, and what they read, which is written to afterwards.
    struct Reading {
      size_t ends[kLanes] = {};
      size_t first, last;
    };
    std::vector<Reading> readings = {};

    bool done(const Reading& r) const { return std::equal(r.ends, r.ends + kLanes, at, std::less_equal<size_t>()); }
    void write_to_what_was_read() {
      std::erase_if(readings, [this](const Reading& r) {
        if (!done(r)) return false;
        for (size_t i = r.first; i < r.last; ++i) std::fill(sources[i].begin(), sources[i].end(), 13u);
        return true;
      });
    }
  };

  PeerLayout layout;
  std::vector<Process> all;
  std::mt19937 random;

  Machine(const PeerLayout& l, unsigned seed) : layout(l), random(seed) {
    for (int r = 0; r < l.world; ++r) all.push_back({Steps(l, r), Bytes(l.bytes()), {}, {}, {}});
  }

  unsigned char* address(int self, const Location& l) {
    Process& p = all[static_cast<size_t>(self)];
    switch (l.in) {
      case Location::In::Source: return bytes_of(p.sources[l.tensor]) + l.offset;
      case Location::In::Reached: return bytes_of(all[static_cast<size_t>(l.rank)].sources[l.tensor]) + l.offset;
      case Location::In::Result: return bytes_of(p.results[l.tensor]) + l.offset;
      case Location::In::Shared: return all[static_cast<size_t>(l.rank)].shared.data() + l.offset;
    }
    return nullptr;
  }

  uint32_t* counter(int owner, PeerCounter c, int by) {
    return reinterpret_cast<uint32_t*>(all[static_cast<size_t>(owner)].shared.data() + layout.counter(c, by));
  }

  /// False: it waits.
  bool run(int self, const Step& s) {
    switch (s.kind) {
      case Step::Kind::Await: return static_cast<int32_t>(*counter(self, s.counter, s.rank) - s.value) >= 0;
      case Step::Kind::Tell:
        REQUIRE(*counter(s.rank, s.counter, self) == s.value - 1);
        *counter(s.rank, s.counter, self) = s.value;
        return true;
      case Step::Kind::Copy: std::memcpy(address(self, s.to), address(self, s.from), s.bytes); return true;
      case Step::Kind::Reduce: {
        Words sum(s.bytes / 4), part(s.bytes / 4);
        std::memcpy(sum.data(), address(self, s.from), s.bytes);
        for (int r = 0; r < layout.world; ++r) {
          if (r == self) continue;
          const size_t at = layout.inbox(r, s.value, self) + s.within;
          std::memcpy(part.data(), all[static_cast<size_t>(self)].shared.data() + at, s.bytes);
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
        }
        std::memcpy(address(self, s.to), sum.data(), s.bytes);
        if (s.has_also) std::memcpy(address(self, s.also), sum.data(), s.bytes);
        return true;
      }
    }
    return true;
  }

  /// False if nothing advances although steps are left.
  bool finish() {
    while (true) {
      std::vector<std::pair<int, size_t>> open;
      for (int r = 0; r < layout.world; ++r)
        for (size_t k = 0; k < kLanes; ++k)
          if (all[static_cast<size_t>(r)].at[k] < all[static_cast<size_t>(r)].streams[k].size()) open.push_back({r, k});
      if (open.empty()) return true;
      std::shuffle(open.begin(), open.end(), random);
      bool moved = false;
      for (const auto& [r, k] : open) {
        Process& p = all[static_cast<size_t>(r)];
        // One process may be far ahead of another.
        for (unsigned n = random() % 20; n-- > 0 && p.at[k] < p.streams[k].size() && run(r, p.streams[k][p.at[k]]);) {
          ++p.at[k];
          moved = true;
        }
        if (!moved && run(r, p.streams[k][p.at[k]])) ++p.at[k], moved = true;
        p.write_to_what_was_read();
      }
      if (!moved) return false;
    }
  }
};

/// A word of a rank's tensor: sums of ranks' words tell which were in them.
uint32_t word(int rank, size_t tensor, size_t i) {
  return (1u << (4 * rank)) + static_cast<uint32_t>((tensor * 7919 + i) % 1000) * 16u * (1u << 16);
}

/// Several collectives of the same kind after each other, each process's streams with all of their steps.
/// Bit i of `reached`: all processes reach tensor i where it lies.
void check(const PeerLayout& layout, What what, const std::vector<size_t>& words, unsigned reached, int times,
           unsigned seed) {
  Machine m(layout, seed);
  const auto world = static_cast<size_t>(layout.world);
  std::vector<size_t> bytes;
  std::vector<bool> at_once;
  for (size_t n : words) {
    bytes.push_back(4 * n);
    at_once.push_back((reached >> at_once.size() & 1) != 0);
  }
  std::vector<std::vector<Words>> given(world);
  for (size_t r = 0; r < world; ++r) {
    Machine::Process& p = m.all[r];
    for (int t = 0; t < times; ++t) {
      const size_t first = p.sources.size();
      for (size_t n : words) {
        Words w(n);
        for (size_t i = 0; i < n; ++i) w[i] = word(static_cast<int>(r), p.sources.size(), i);
        p.sources.push_back(w);
        p.results.push_back(what == What::Gather    ? Words(n * world, 7)
                            : what == What::Scatter ? Words(n / world, 7)
                                                    : w);
      }
      auto steps = what == What::Gather    ? p.steps.all_gather(bytes, at_once)
                   : what == What::Scatter ? p.steps.reduce_scatter(bytes)
                                           : p.steps.all_reduce(bytes);
      for (Step& s : steps) {
        for (Location* l : {&s.from, &s.to}) {
          if (l->in == Location::In::Shared) continue;
          l->tensor += first;
          // As the executor has it: all_reduce reduces where its tensors lie.
          if (what == What::Reduce) l->in = Location::In::Result;
        }
        p.streams[static_cast<size_t>(s.lane)].push_back(s);
      }
      if (what == What::Reduce) continue;
      p.readings.push_back({.first = first, .last = p.sources.size()});
      for (size_t k = 0; k < kLanes; ++k) p.readings.back().ends[k] = p.streams[k].size();
    }
  }
  INFO("world ", layout.world, ", slots ", layout.slots, ", seed ", seed);
  REQUIRE(m.finish());
  for (size_t r = 0; r < world; ++r)
    for (size_t t = 0; t < m.all[r].results.size(); ++t) {
      const Words& got = m.all[r].results[t];
      const size_t n = words[t % words.size()];
      bool equal = true;
      for (size_t i = 0; i < got.size(); ++i) {
        uint32_t expected = 0;
        if (what == What::Gather) expected = word(static_cast<int>(i / n), t, i % n);
        else
          for (size_t q = 0; q < world; ++q)
            expected += word(static_cast<int>(q), t, what == What::Scatter ? r * got.size() + i : i);
        equal = equal && got[i] == expected;
      }
      CHECK_MESSAGE(equal, "rank ", r, ", tensor ", t);
    }
}

}  // namespace

TEST_CASE("peer steps: the shared memory's parts do not overlap") {
  for (int world : {2, 3, 5}) {
    const PeerLayout l{.world = world, .inbox_bytes = 10000, .outbox_bytes = 5000, .slots = 3};
    Bytes used(l.bytes());
    const auto take = [&](size_t at, size_t bytes) {
      REQUIRE(at + bytes <= used.size());
      for (size_t i = at; i < at + bytes; ++i) REQUIRE(used[i]++ == 0);
    };
    for (size_t c = 0; c < kCounters; ++c)
      for (int by = 0; by < world; ++by) take(l.counter(static_cast<PeerCounter>(c), by), 4);
    for (uint32_t slot = 0; slot < l.slots; ++slot) {
      for (int from = 0; from < world; ++from)
        if (from != 1) take(l.inbox(from, slot, 1), l.inbox_chunk());
      take(l.outbox(slot), l.outbox_chunk());
    }
  }
}

TEST_CASE("peer steps: nothing to do") {
  Steps s({.world = 2, .inbox_bytes = 4096, .outbox_bytes = 4096}, 0);
  CHECK(s.all_gather({}, {}).empty());
  CHECK(s.all_gather({0, 0}, {true, false}).empty());
  CHECK(s.reduce_scatter({0}).empty());
  CHECK(s.all_reduce({0, 0}).empty());
}

TEST_CASE("peer steps: a process alone in a slot's turn waits for those who read it") {
  Steps s({.world = 2, .inbox_bytes = 512, .outbox_bytes = 512, .slots = 2}, 0);
  int awaited = 0;
  for (const Step& step : s.all_gather({3 * 256}, {false}))
    awaited += step.kind == Step::Kind::Await && step.counter == PeerCounter::Taken;
  CHECK(awaited == 1);
}

TEST_CASE("peer steps: what all reach takes no slot, and its owner waits until all have it") {
  Steps s({.world = 3, .inbox_bytes = 0, .outbox_bytes = 0}, 0);
  const std::vector<Step> steps = s.all_gather({3 * 256, 1024}, {true, true});
  size_t copied = 0;
  for (const Step& step : steps) {
    CHECK(step.to.in != Location::In::Shared);
    copied += step.bytes;
  }
  CHECK(copied == 3 * (3 * 256 + 1024));
  CHECK(steps.back().counter == PeerCounter::Fetched);
  CHECK(steps.back().kind == Step::Kind::Await);
}

TEST_CASE("peer steps: pieces of several tensors fill a slot") {
  const PeerLayout layout{.world = 2, .inbox_bytes = 2 * 4096, .outbox_bytes = 2 * 4096, .slots = 2};
  const auto told = [](const std::vector<Step>& steps, PeerCounter c) {
    return std::count_if(steps.begin(), steps.end(),
                         [c](const Step& s) { return s.kind == Step::Kind::Tell && s.counter == c; });
  };
  // Slices of 100, 1000 and 2400 bytes leave crumbs of a slot, which 3900 more do not take.
  CHECK(told(Steps(layout, 0).reduce_scatter({200, 2000, 4800}), PeerCounter::Sent) == 1);
  CHECK(told(Steps(layout, 0).reduce_scatter({200, 2000, 4800, 7800}), PeerCounter::Sent) == 2);
  const std::vector<Step> divided = Steps(layout, 1).reduce_scatter({4000, 8000});
  CHECK(told(divided, PeerCounter::Sent) == 2);
  std::vector<size_t> within;
  for (const Step& s : divided)
    if (s.kind == Step::Kind::Reduce) within.push_back(s.within);
  CHECK(within == std::vector<size_t>{0, 2048, 0});
}

TEST_CASE("fuzz: peer steps: every order of processes gives what the collective says") {
  const char* wish = std::getenv("THUNDER_FUZZ");
  const int programs = wish ? std::atoi(wish) : 400;
  std::mt19937 random(7);
  for (int program = 0; program < programs; ++program) {
    PeerLayout l;
    l.world = 2 + static_cast<int>(random() % 5);
    const What what = std::vector{What::Gather, What::Scatter, What::Reduce}[random() % 3];
    l.slots = 1 + random() % 4;
    l.inbox_bytes = l.slots * static_cast<size_t>(l.world - 1) * 256 * (1 + random() % 3);
    l.outbox_bytes = l.slots * 256 * (1 + random() % 3);
    std::vector<size_t> words;
    for (unsigned n = 1 + random() % 5; n-- > 0;) {
      const size_t size = random() % (random() % 2 ? 700 : 40);
      words.push_back(what == What::Scatter ? size / static_cast<size_t>(l.world) * static_cast<size_t>(l.world)
                                            : size);
    }
    check(l, what, words, random(), 1 + static_cast<int>(random() % 3), random());
  }
}
