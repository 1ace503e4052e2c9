#include "executors/definition.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "core/error.h"

namespace thunder {
namespace {

// By name; an executor of the user's has none.
std::map<std::string, int>& ranks() {
  static std::map<std::string, int> ranks;
  return ranks;
}

// The first in the list with a larger rank; empty if there is none.
std::string next_of(int rank, const ExecutorList& list) {
  auto next = std::find_if(list.begin(), list.end(), [&](const auto& e) {
    auto known = ranks().find(e->name());
    return known != ranks().end() && known->second > rank;
  });
  return next == list.end() ? std::string() : (*next)->name();
}

}  // namespace

void register_executor(const std::shared_ptr<Executor>& made, const ExecutorDefinition& d) {
  Executors& all = Executors::instance();
  THUNDER_CHECK(!all.is_reserved(made->name()), Import, "executors", "the name '", made->name(),
                "' is taken by Thunder itself; give the executor another one");
  all.remove(made->name());  // one of the same name may have another place
  all.add(made);
  if (d.place == ExecutorPlace::Default) all.add_default(made, next_of(d.rank, all.defaults()));
  if (d.place == ExecutorPlace::Last) all.add_always(made, next_of(d.rank, all.always()));
  ranks()[made->name()] = d.rank;
}

void register_executors() {
  std::vector<ExecutorDefinition> definitions = executor_definitions();
  std::sort(definitions.begin(), definitions.end(), [](const ExecutorDefinition& a, const ExecutorDefinition& b) {
    return std::tie(a.place, a.rank) < std::tie(b.place, b.rank);
  });
  for (const ExecutorDefinition& d : definitions)
    if (std::shared_ptr<Executor> made = d.make()) register_executor(made, d);
}

}  // namespace thunder
