#include "passes/reach.h"

#include "core/rewrite.h"

namespace thunder {
namespace {

class ReachSearch {
 public:
  void add(Value v, uint64_t bits) {
    if (v && v.requires_grad() && bits) bits_[v] |= bits;
  }

  std::unordered_map<Value, uint64_t, ValueHash> bits() && { return std::move(bits_); }

  void back(const std::vector<const Call*>& calls) {
    for (auto it = calls.rbegin(); it != calls.rend(); ++it) back(**it);
  }

 private:
  // A call with a gradient rule is what one node of autograd's is: what flows into one result flows to all arguments.
  void back(const Call& call) {
    if (!call.op->vjp && !call.body.empty()) return back(call.body);
    uint64_t bits = 0;
    visit_values(call.output, [&](Value v) {
      if (auto it = bits_.find(v); it != bits_.end()) bits |= it->second;
    });
    if (bits == 0) return;
    for (const Arg& a : call.args) visit_values(a, [&](Value v) { add(v, bits); });
  }

  std::unordered_map<Value, uint64_t, ValueHash> bits_;
};

}  // namespace

std::unordered_map<Value, uint64_t, ValueHash> reached_from_values(const Trace& trace,
                                                                   const std::vector<size_t>& differentiable) {
  ReachSearch walk;
  for (size_t k = 0; k < differentiable.size(); ++k)
    walk.add(trace.output.items().at(differentiable[k]).value(), reach_bit(k));
  walk.back(trace.calls);
  return std::move(walk).bits();
}

std::vector<uint64_t> reached_outputs(const Trace& trace, const std::vector<size_t>& differentiable) {
  const auto bits = reached_from_values(trace, differentiable);
  std::vector<uint64_t> out;
  for (Value v : trace.inputs) {
    auto it = bits.find(v);
    out.push_back(it == bits.end() ? 0 : it->second);
  }
  return out;
}

}  // namespace thunder
