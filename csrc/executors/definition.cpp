#include "executors/definition.h"

#include <algorithm>
#include <tuple>

namespace thunder {

void register_executors() {
  Executors& all = Executors::instance();
  std::vector<ExecutorDefinition> definitions = executor_definitions();
  std::sort(definitions.begin(), definitions.end(), [](const ExecutorDefinition& a, const ExecutorDefinition& b) {
    return std::tie(a.place, a.rank) < std::tie(b.place, b.rank);
  });
  ExecutorList defaults;
  for (const ExecutorDefinition& d : definitions) {
    std::shared_ptr<Executor> made = d.make();
    if (!made) continue;
    all.add(made);
    if (d.place == ExecutorPlace::Default) defaults.push_back(made);
    if (d.place == ExecutorPlace::Last) all.add_always(made);
  }
  // Each goes to the front of the list.
  for (auto e = defaults.rbegin(); e != defaults.rend(); ++e) all.add_default(*e);
}

}  // namespace thunder
