#include "passes/mincut.h"

#include <algorithm>

namespace thunder {

int FlowNetwork::add_node() {
  first_.push_back(-1);
  return nodes() - 1;
}

void FlowNetwork::add_edge(int from, int to, int64_t capacity) {
  edges_.push_back({to, first_[from], capacity});
  first_[from] = static_cast<int>(edges_.size()) - 1;
  edges_.push_back({from, first_[to], 0});
  first_[to] = static_cast<int>(edges_.size()) - 1;
}

// Distances to the sink, from behind: paths are then walked from the source without dead ends that lead nowhere near
// it.
bool FlowNetwork::label(int source, int sink) {
  std::fill(level_.begin(), level_.end(), -1);
  queue_.clear();
  queue_.push_back(sink);
  level_[sink] = 0;
  for (size_t head = 0; head < queue_.size(); ++head) {
    int node = queue_[head];
    for (int e = first_[node]; e >= 0; e = edges_[e].next) {
      int from = edges_[e].to;
      if (level_[from] >= 0 || edges_[e ^ 1].capacity == 0) continue;
      level_[from] = level_[node] + 1;
      if (from == source) return true;
      queue_.push_back(from);
    }
  }
  return false;
}

// A blocking flow, depth first with the path kept by hand: paths can be as long as the program.
int64_t FlowNetwork::augment(int source, int sink) {
  int64_t total = 0;
  std::vector<int> path;  // edges
  int node = source;
  while (true) {
    if (node == sink) {
      int64_t flow = kInfinite;
      for (int e : path) flow = std::min(flow, edges_[e].capacity);
      size_t keep = path.size();
      for (size_t i = path.size(); i-- > 0;) {
        edges_[path[i]].capacity -= flow;
        edges_[path[i] ^ 1].capacity += flow;
        if (edges_[path[i]].capacity == 0) keep = i;
      }
      total += flow;
      if (keep == path.size() || total >= kInfinite) return total;
      node = edges_[path[keep] ^ 1].to;
      path.resize(keep);
      continue;
    }
    int& e = current_[node];
    while (e >= 0 && (edges_[e].capacity == 0 || level_[edges_[e].to] != level_[node] - 1)) e = edges_[e].next;
    if (e >= 0) {
      path.push_back(e);
      node = edges_[e].to;
      continue;
    }
    if (path.empty()) return total;
    level_[node] = -1;
    node = edges_[path.back() ^ 1].to;
    path.pop_back();
  }
}

int64_t FlowNetwork::max_flow(int source, int sink) {
  level_.assign(first_.size(), -1);
  int64_t total = 0;
  while (total < kInfinite && label(source, sink)) {
    current_ = first_;
    total += augment(source, sink);
  }
  return total;
}

std::vector<char> FlowNetwork::sink_side(int sink) const {
  std::vector<char> side(first_.size(), 0);
  std::vector<int> queue{sink};
  side[sink] = 1;
  for (size_t head = 0; head < queue.size(); ++head)
    for (int e = first_[queue[head]]; e >= 0; e = edges_[e].next) {
      int from = edges_[e].to;
      if (side[from] || edges_[e ^ 1].capacity == 0) continue;
      side[from] = 1;
      queue.push_back(from);
    }
  return side;
}

}  // namespace thunder
