// Tensors whose value is known while the program is acquired: made of constants alone, as a table of positions is.
//
// Branches on such a tensor, its numbers and its items are then Python's own, as they are in eager.  An operator that
// takes no tensor in a place gets the number there.
//
// Owns nothing.  Calls the tensors and the value questions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frontend/acquisition.h"
#include "frontend/tensors.h"
#include "frontend/value_questions.h"

namespace thunder::frontend {

class Constants {
 public:
  using Keywords = std::vector<std::pair<std::string, Arg>>;

  Constants(Acquisition& acquisition, Tensors& tensors, ValueQuestions& questions)
      : acquisition_(acquisition), b_(acquisition.builder()), tensors_(tensors), questions_(questions) {}

  /// The tensor that this one always is, whatever the inputs are; null if it depends on them, or on chance.
  Ref find(Value tensor) const;
  Ref find(PyObject* tensor) const;
  /// Replaces 0-d integer tensors in `a` by Python numbers, as eager's conversions do.  Without `read` it replaces the
  /// tensors of known value alone, with `read` all tensors whose values the program can read.  Returns whether `a`
  /// contained any.
  bool fold(Arg& a, bool read);
  /// Calls an operator that has refused its arguments, for this reason, with numbers for what they may stand for.
  Arg call_with_numbers(const std::string& op, const ArgList& positional, const Keywords& keyword,
                        const Error& refusal);

 private:
  Acquisition& acquisition_;
  Builder& b_;
  Tensors& tensors_;
  ValueQuestions& questions_;
};

}  // namespace thunder::frontend
