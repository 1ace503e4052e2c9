// Products of two matrices: by a typed call, and into a sum that is there where the program's caller has one.
#pragma once

#include <memory>

#include "core/op.h"
#include "runtime/instruction.h"

namespace thunder::aten {

/// The instruction for a call of `op` that is the product of two real floating-point matrices; null for other calls.
std::unique_ptr<Instruction> lower_product(const Op& op, const Call& call, const Assembler& assembler);

}  // namespace thunder::aten
