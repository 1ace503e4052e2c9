// Calls that are not one ATen operator, or that are cheaper as a direct call than boxed: functions of our own.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>

#include "core/op.h"
#include "runtime/instruction.h"

namespace thunder::aten {

using Ints = c10::SmallVector<int64_t, 6>;

/// The arguments of a running call, by position in the record's schema.
class FunctionArgs {
 public:
  FunctionArgs(const std::vector<Operand>& operands, Frame& frame) : operands_(operands), frame_(frame) {}
  size_t size() const { return operands_.size(); }
  const at::Tensor& tensor(size_t i) const { return frame_.registers[operands_[i].reg].toTensor(); }
  bool is_none(size_t i) const;
  bool is_tensor(size_t i) const;
  c10::IValue value(size_t i) const { return operands_[i].load(frame_); }
  int64_t integer(size_t i) const { return value(i).toScalar().toLong(); }
  at::Scalar scalar(size_t i) const { return value(i).toScalar(); }
  Ints ints(size_t i) const;
  /// The elements of a list.
  size_t length(size_t i) const;
  c10::IValue element(size_t i, size_t j) const;

 private:
  const std::vector<Operand>& operands_;
  Frame& frame_;
};

using OwnFunction = c10::IValue (*)(const FunctionArgs&);

/// Null for any other operator.
std::unique_ptr<Instruction> lower_or_zeros(const Op& op, const Call& call, const Assembler& assembler);

/// The function for an operator (by full name), or null.
OwnFunction find_own_function(const std::string& op);

std::unique_ptr<Instruction> lower_own_function(OwnFunction function, const Op& op, const Call& call,
                                                const Assembler& assembler);

}  // namespace thunder::aten
