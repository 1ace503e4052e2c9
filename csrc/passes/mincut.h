// Minimum cuts: what split() saves.
#pragma once

#include <cstdint>
#include <vector>

namespace thunder {

/// A directed graph with capacities.  Solved by Dinic's algorithm; graphs of programs (long, narrow, few paths) take it
/// about linear time.
class FlowNetwork {
 public:
  static constexpr int64_t kInfinite = int64_t{1} << 60;

  int add_node();
  int nodes() const { return static_cast<int>(first_.size()); }
  void add_edge(int from, int to, int64_t capacity);
  /// The greatest flow, which is the least capacity that separates the two; kInfinite or more if nothing finite does.
  int64_t max_flow(int source, int sink);
  /// After max_flow: the nodes on the sink's side of the minimum cut that lies closest to the sink.
  std::vector<char> sink_side(int sink) const;

 private:
  struct Edge {
    int to, next;
    int64_t capacity;  // what is left; the edge back is at index ^ 1
  };
  bool label(int source, int sink);
  int64_t augment(int source, int sink);

  std::vector<int> first_;
  std::vector<Edge> edges_;
  std::vector<int> level_, current_, queue_;
};

}  // namespace thunder
