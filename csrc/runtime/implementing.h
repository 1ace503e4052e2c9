// Operators of executors that run a record's calls in its place.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/op.h"
#include "passes/executor.h"
#include "runtime/instruction.h"

namespace thunder {

/// Registers an operator of `executor` with the record's schema, types and tags, and these tags, that prints as
/// `print_name`.  `without`: tags of the record that do not hold for the executor's own way.
const Op& register_implementing_operator(const Op& record, const std::string& executor, std::string print_name,
                                         uint64_t tags = kNoTag, uint64_t without = kNoTag);

/// What runs the record `symbol` by an instruction of `executor`, for calls that `checker` takes.
Implementation implementing(const std::string& symbol, const std::string& executor,
                            std::function<bool(const Call&)> checker, uint64_t without = kNoTag);

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
