// Calls in an order in which each follows what it reads.
#pragma once

#include <unordered_set>
#include <vector>

#include "passes/visit.h"

namespace thunder::distributed {

/// Places calls one by one, each behind the calls that make what it reads.
class InOrder {
 public:
  explicit InOrder(const std::vector<const Call*>& calls) {
    for (const Call* c : calls)
      visit_outputs(*c, [&](Value v) {
        if (!maker_[v]) maker_.set(v, c);
      });
  }
  void place(const Call* call) {
    if (!done_.insert(call).second) return;
    visit_all_inputs(*call, [&](Value v) {
      if (const Call* maker = maker_[v]) place(maker);
    });
    out_.push_back(call);
  }
  bool placed(const Call* call) const { return done_.count(call) != 0; }
  const Call* maker(Value v) const { return maker_[v]; }
  std::vector<const Call*> take() { return std::move(out_); }

 private:
  ValueMap<const Call*> maker_;
  std::unordered_set<const Call*> done_;
  std::vector<const Call*> out_;
};

}  // namespace thunder::distributed
