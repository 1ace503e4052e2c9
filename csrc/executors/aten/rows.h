// Whole rows by their numbers, on the CPU: PyTorch's indexing goes element by element, which takes several times longer.
#pragma once

#include <memory>

#include "core/op.h"
#include "runtime/instruction.h"

namespace thunder::aten {

/// The instruction for a call of `op` that reads rows of a tensor (t[i]), or adds to them (index_put with accumulate);
/// null for other calls.
std::unique_ptr<Instruction> lower_rows(const Op& op, const Call& call, const Assembler& assembler);

}  // namespace thunder::aten
