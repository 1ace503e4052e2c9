// The way out for executors: PyTorch's operator runs a call that an executor's own way does not take at run time.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/instruction.h"

namespace thunder {

/// PyTorch's operator, for what an executor's own way does not take at run time.
class ByAten {
 public:
  /// The ATen operator of the record that the call's operator stands for.
  ByAten(const Call& call, const Assembler& assembler);
  explicit ByAten(std::unique_ptr<Instruction> aten) : aten_(std::move(aten)) {}
  std::string str() const { return aten_->str(); }
  /// Instead of the instruction that has this one: it reads the same registers, and moves none of them out.
  void run(const Instruction& instead_of, Frame& frame) const;

 private:
  std::unique_ptr<Instruction> aten_;
  mutable std::once_flag prepared_;
};

}  // namespace thunder
