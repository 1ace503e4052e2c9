// Attention whose lengths are known at run time alone.  cuDNN takes no single query and no single key; those are small
// products of PyTorch's, so that one program serves all lengths.
#pragma once

#include <memory>

#include "runtime/instruction.h"

namespace thunder::cudnn {

/// The instruction for a call of the executor's without dropout, forward or backward: `by_cudnn` runs it where there are
/// several queries and keys.  `by_cudnn` itself where the lengths are constants.
std::unique_ptr<Instruction> with_any_length(const Call& call, const Assembler& assembler,
                                             std::unique_ptr<Instruction> by_cudnn);

}  // namespace thunder::cudnn
