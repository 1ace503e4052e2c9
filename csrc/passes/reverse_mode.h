// Reverse-mode differentiation of calls, from the last to the first: what a pass does with a whole trace, and the front
// end with the calls that a program has made so far.
#pragma once

#include <vector>

#include "core/builder.h"
#include "passes/visit.h"

namespace thunder {

/// The rules of calls, applied in reverse order.  Calls go to the builder, which stands in its own mode of gradients.
class ReverseMode {
 public:
  /// `twice`: gradients flow through the gradients, so that rules must be functions that have rules themselves.
  explicit ReverseMode(Builder& b, bool twice = false) : b_(b), twice_(twice) {}
  /// The gradient of a result with which differentiation begins.
  void seed(Value v, Value gradient) { gradients_.set(v, gradient); }
  /// Error (NotImplemented) names an operator without a rule through which a gradient flows.
  void differentiate(const Call& call);
  /// What the calls so far give; None where no gradient flows.
  Arg gradient_of(Value v);
  bool reaches(Value v) const { return gradients_[v] || zero_[v]; }

 protected:
  Builder& b_;

 private:
  void apply_rule(const Call& call);
  void differentiate_body(const Call& call);
  Arg gradient_for(const Call& call, const ArgList& outputs, size_t i);
  void accumulate(const Call& call, Value input, Value gradient);

  const bool twice_;
  ValueMap<Value> gradients_;
  ValueSet zero_;  // reached by a gradient of zeros
};

/// Of the calls, those that something reads: `read` has what is wanted in the end, and takes what the calls read.
std::vector<const Call*> live_calls(const std::vector<const Call*>& calls, ValueSet& read);

struct PartialGradients {
  std::vector<Arg> gradients;        ///< one per input; None where no gradient flows
  std::vector<const Call*> calls;    ///< what makes them
  std::vector<const Call*> applied;  ///< the calls of the program whose rules it took
  ValueSet read;                     ///< by `calls`
};

/// Gradients of what calls give: torch.autograd.grad in the middle of a program.  `seeds`: results and their gradients.
/// Calls that lead to no input are left alone.  The builder's mode says whether gradients flow through the gradients.
/// Error (NotImplemented) names an operator that has no rule, or none that can be differentiated where it has to be.
/// `calls`: a copy, since the builder's own list moves.
PartialGradients partial_gradients(Builder& b, std::vector<const Call*> calls,
                                   const std::vector<std::pair<Value, Value>>& seeds, const std::vector<Value>& inputs);

/// Which values gradients of these results may flow to.
ValueSet reached_by_gradients(const std::vector<const Call*>& calls, const std::vector<Value>& results);

}  // namespace thunder
