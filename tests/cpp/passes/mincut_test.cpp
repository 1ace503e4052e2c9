#include "passes/mincut.h"

#include <doctest.h>

#include <array>
#include <chrono>
#include <random>

namespace thunder {
namespace {

// The least cut, by trying all of them.
int64_t least_cut(int nodes, const std::vector<std::array<int64_t, 3>>& edges) {
  int64_t best = INT64_MAX;
  for (unsigned side = 0; side < (1u << nodes); ++side) {
    if (!(side & 1) || (side & (1u << (nodes - 1)))) continue;  // node 0 is the source, the last one the sink
    int64_t cut = 0;
    for (const auto& [from, to, capacity] : edges)
      if ((side >> from & 1) && !(side >> to & 1)) cut += capacity;
    best = std::min(best, cut);
  }
  return best;
}

FlowNetwork network_of(int nodes, const std::vector<std::array<int64_t, 3>>& edges) {
  FlowNetwork n;
  for (int i = 0; i < nodes; ++i) n.add_node();
  for (const auto& [from, to, capacity] : edges) n.add_edge(static_cast<int>(from), static_cast<int>(to), capacity);
  return n;
}

TEST_CASE("mincut: nothing flows where nothing leads") {
  FlowNetwork n = network_of(3, {{0, 1, 5}, {2, 1, 5}});
  CHECK(n.max_flow(0, 2) == 0);
  CHECK(n.sink_side(2) == std::vector<char>{0, 0, 1});
}

TEST_CASE("mincut: of equal cuts the one closest to the sink") {
  FlowNetwork n = network_of(4, {{0, 1, 3}, {1, 2, 3}, {2, 3, 3}});
  CHECK(n.max_flow(0, 3) == 3);
  CHECK(n.sink_side(3) == std::vector<char>{0, 0, 0, 1});
}

TEST_CASE("mincut: a path that nothing finite cuts") {
  FlowNetwork n = network_of(3, {{0, 1, FlowNetwork::kInfinite}, {1, 2, FlowNetwork::kInfinite}});
  CHECK(n.max_flow(0, 2) >= FlowNetwork::kInfinite);
}

TEST_CASE("mincut: random graphs against all cuts") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    int nodes = 2 + static_cast<int>(random() % 7);
    std::vector<std::array<int64_t, 3>> edges;
    for (size_t i = random() % 20; i > 0; --i)
      edges.push_back({static_cast<int64_t>(random() % nodes), static_cast<int64_t>(random() % nodes),
                       static_cast<int64_t>(random() % 10)});
    FlowNetwork n = network_of(nodes, edges);
    int64_t least = least_cut(nodes, edges);
    CHECK(n.max_flow(0, nodes - 1) == least);
    std::vector<char> sink_side = n.sink_side(nodes - 1);
    CHECK_FALSE(sink_side[0]);
    int64_t cut = 0;
    for (const auto& [from, to, capacity] : edges)
      if (!sink_side[static_cast<size_t>(from)] && sink_side[static_cast<size_t>(to)]) cut += capacity;
    CHECK(cut == least);
  }
}

// A residual stream with branches, every value wanted by the backward: what the split of a deep model looks like.
TEST_CASE("mincut: a deep program of 10,000 values takes milliseconds") {
  FlowNetwork n;
  int source = n.add_node(), sink = n.add_node();
  auto value = [&](int64_t bytes) {
    int in = n.add_node(), out = n.add_node();
    n.add_edge(in, out, bytes);
    return std::pair(in, out);
  };
  std::mt19937 random(2);
  auto stream = value(1000);
  n.add_edge(source, stream.first, FlowNetwork::kInfinite);
  for (int layer = 0; layer < 500; ++layer) {
    auto branch = stream;
    for (int i = 0; i < 18; ++i) {
      auto next = value(500 + static_cast<int64_t>(random() % 1000));
      if (i % 6 == 3) {
        n.add_edge(source, next.first, FlowNetwork::kInfinite);
      } else {
        n.add_edge(branch.second, next.first, FlowNetwork::kInfinite);
      }
      if (random() % 2) n.add_edge(next.second, sink, FlowNetwork::kInfinite);
      branch = next;
    }
    auto sum = value(1000);
    n.add_edge(stream.second, sum.first, FlowNetwork::kInfinite);
    n.add_edge(branch.second, sum.first, FlowNetwork::kInfinite);
    stream = sum;
  }
  n.add_edge(stream.second, sink, FlowNetwork::kInfinite);
  auto start = std::chrono::steady_clock::now();
  CHECK(n.max_flow(source, sink) > 0);
  double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  MESSAGE("10,000 values: ", ms, " ms");
  CHECK(ms < 500);  // a busy machine and a sanitizer included
}

}  // namespace
}  // namespace thunder
