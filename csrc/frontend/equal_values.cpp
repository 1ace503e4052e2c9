#include "frontend/equal_values.h"

#include "passes/equal_calls.h"
#include "passes/visit.h"

namespace thunder {

const void* EqualValues::first(const void* source) {
  const std::vector<const Call*>& calls = builder_.outermost_calls();
  for (; added_ < calls.size(); ++added_) add(*calls[added_]);
  auto it = first_.find(source);
  return it == first_.end() ? source : it->second;
}

void EqualValues::add(const Call& call) {
  const uint64_t effect = effects(call);
  if (effect & kWrite) seen_.clear();  // what is read from memory before need not be what is read after
  if (effect) return;
  ArgList args = map_(call.args);
  const size_t hash = hash_of_call(*call.op, args);
  auto [from, to] = seen_.equal_range(hash);
  for (auto it = from; it != to; ++it) {
    const Seen& seen = it->second;
    if (!is_equal_call(*call.op, args, *seen.call->op, seen.args)) continue;
    const std::vector<Value> outputs = outputs_of(call), earlier = outputs_of(*seen.call);
    for (size_t i = 0; i < outputs.size() && i < earlier.size(); ++i) {
      if (outputs[i] == earlier[i]) continue;  // an argument that both calls return
      map_.replace(outputs[i], earlier[i]);
      first_[&outputs[i].type()] = &earlier[i].type();
    }
    return;
  }
  seen_.emplace(hash, Seen{&call, std::move(args)});
}

}  // namespace thunder
