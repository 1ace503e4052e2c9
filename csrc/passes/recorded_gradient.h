// Gradient rules that were recorded rather than written: calls on placeholders of the gradients.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/builder.h"

namespace thunder {

/// A rule that ran: what autodiff needs of it.
struct RecordedGradient {
  std::vector<std::pair<Value, Value>> placeholders;  ///< (result, what stands for its gradient)
  std::vector<std::pair<Value, Arg>> puts;            ///< (argument, its gradient)
  std::vector<const Call*> backward;                  ///< from the placeholders to the gradients
  ArgList args;                                       ///< of the call when the rule ran: passes rename values later
  Arg output;
};

/// What stands for the gradient of a result.
TensorType placeholder_type(const TensorType& result);

/// An operator, owned by the arena, whose gradient is the recorded one.  Its calls have `rule->args` as arguments.
const Op& operator_of(Arena& arena, std::shared_ptr<RecordedGradient> rule, const std::string& name,
                      std::vector<Param> params, std::string results);

}  // namespace thunder
