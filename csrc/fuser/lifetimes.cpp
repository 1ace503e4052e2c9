#include "fuser/lifetimes.h"

#include <algorithm>

#include "fuser/graph.h"

namespace thunder::fuser {
namespace {

constexpr int64_t kSmaller = 4;  // times, than an operand, for a sum to be worth a kernel of its own

}  // namespace

Lifetimes::Lifetimes(const std::vector<const Call*>& calls, const Arg& output) {
  ValueSet made;
  for (size_t i = 0; i < calls.size(); ++i) {
    visit_outputs(*calls[i], [&](Value v) { made.set(v, 1); });
    visit_all_inputs(*calls[i], [&](Value v) {
      last_.set(v, static_cast<int>(i));
      if (!made[v]) lasting_.set(v, 1);
    });
  }
  visit_values(output, [&](Value v) { lasting_.set(v, 1); });
}

bool Lifetimes::keeps_more(Value sum, const std::vector<Value>& operands, int reader) const {
  return std::any_of(operands.begin(), operands.end(), [&](Value v) {
    return v.type().is_tensor() && !lasting_[v] && last_[v] < reader && usual_numel(v) >= kSmaller * usual_numel(sum);
  });
}

}  // namespace thunder::fuser
