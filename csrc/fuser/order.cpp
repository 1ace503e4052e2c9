#include "fuser/order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "core/error.h"
#include "passes/visit.h"

namespace thunder::fuser {

std::vector<const Call*> calls_in_order(const std::vector<Placed>& calls) {
  std::unordered_map<const Call*, size_t> index;
  ValueMap<int> maker{-1};
  std::vector<std::vector<size_t>> readers(calls.size());
  std::vector<size_t> waits_for(calls.size(), 0);
  const auto wait = [&](size_t reader, size_t made) {
    if (reader == made) return;
    readers[made].push_back(reader);
    ++waits_for[reader];
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    index[calls[i].call] = i;
    visit_all_inputs(*calls[i].call, [&](Value v) {
      if (maker[v] >= 0) wait(i, static_cast<size_t>(maker[v]));
    });
    if (calls[i].after) wait(i, index.at(calls[i].after));
    visit_outputs(*calls[i].call, [&](Value v) {
      if (maker[v] < 0) maker.set(v, static_cast<int>(i));
    });
  }
  std::vector<int> place(calls.size());
  for (size_t i = calls.size(); i-- > 0;) {
    place[i] = calls[i].place;
    if (calls[i].movable)
      for (size_t r : readers[i]) place[i] = std::min(place[i], place[r]);
  }
  using Ready = std::pair<int, size_t>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (size_t i = 0; i < calls.size(); ++i)
    if (waits_for[i] == 0) ready.emplace(place[i], i);
  std::vector<const Call*> out;
  while (!ready.empty()) {
    const size_t i = ready.top().second;
    ready.pop();
    out.push_back(calls[i].call);
    for (size_t r : readers[i])
      if (--waits_for[r] == 0) ready.emplace(place[r], r);
  }
  THUNDER_ASSERT(out.size() == calls.size(), "calls need each other: ", calls.size() - out.size(), " are left");
  return out;
}

}  // namespace thunder::fuser
