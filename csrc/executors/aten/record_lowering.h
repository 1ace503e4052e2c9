// From a call of one of our operators to a call of an ATen operator.
//
// A record's `aten` field names the ATen operator and, where they are not the same in the same order, its arguments.
// The arguments are converted by the types of ATen's schema.  Where a Python number stands where ATen wants a tensor,
// an overload that takes a number is preferred (`pow.Tensor_Scalar` for `pow.Tensor_Tensor`), else the number is
// wrapped as PyTorch does.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/op.h"
#include "runtime/instruction.h"

namespace thunder::aten {

/// One argument of the ATen operator: a parameter of ours, a literal of the template, or ATen's default.
struct ArgumentSource {
  int param = -1;
  std::optional<Arg> literal;
};

/// An ATen operator with where each argument of its schema comes from.
struct BoundOperator {
  c10::OperatorHandle handle;
  std::vector<ArgumentSource> sources;
};

/// What the record's `aten` field means in this PyTorch.
class RecordLowering {
 public:
  /// Never throws: problem() says what is wrong.
  explicit RecordLowering(const Op& op);
  /// Empty if the record fits ATen's schema.
  const std::string& problem() const { return problem_; }
  /// The operator that takes this very call; null if none can (an option that the template leaves out is not at its
  /// default).
  const BoundOperator* operator_for(const ArgList& args) const;
  std::unique_ptr<Instruction> lower(const Call& call, const Assembler& assembler) const;

 private:
  bool omitted_at_default(const ArgList& args) const;

  const Op& op_;
  std::string problem_;
  std::vector<BoundOperator> operators_;  // the one named, then overloads that take numbers
  std::vector<int> omitted_;              // parameters with defaults that the template does not mention
  bool prefer_wrapped_ = false;
};

/// Operators of that executor run as their records' `aten` fields say.
void lower_by_records(const std::string& executor);

}  // namespace thunder::aten
