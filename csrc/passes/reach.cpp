#include "passes/reach.h"

#include "core/rewrite.h"

namespace thunder {
namespace {

class Walk {
 public:
  void add(Value v, uint64_t bits) {
    if (v && v.requires_grad() && bits) bits_[v] |= bits;
  }

  uint64_t operator[](Value v) const {
    auto it = bits_.find(v);
    return it == bits_.end() ? 0 : it->second;
  }

  void back(const std::vector<const Call*>& calls) {
    for (auto it = calls.rbegin(); it != calls.rend(); ++it) back(**it);
  }

 private:
  // A call with a gradient rule is what one node of autograd's is: what flows into one result flows to all arguments.
  void back(const Call& call) {
    if (!call.op->vjp && !call.body.empty()) return back(call.body);
    uint64_t bits = 0;
    for_each_value(call.output, [&](Value v) { bits |= (*this)[v]; });
    if (bits == 0) return;
    for (const Arg& a : call.args) for_each_value(a, [&](Value v) { add(v, bits); });
  }

  std::unordered_map<Value, uint64_t, ValueHash> bits_;
};

}  // namespace

std::vector<uint64_t> reached_outputs(const Trace& trace, const std::vector<size_t>& differentiable) {
  Walk walk;
  for (size_t k = 0; k < differentiable.size(); ++k)
    walk.add(trace.output.items().at(differentiable[k]).value(), reach_bit(k));
  walk.back(trace.calls);
  std::vector<uint64_t> out;
  for (Value v : trace.inputs) out.push_back(walk[v]);
  return out;
}

}  // namespace thunder
