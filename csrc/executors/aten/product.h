// Products of two matrices: by a typed call, and into a sum that is there where the program's caller has one.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "core/op.h"
#include "runtime/instruction.h"

namespace thunder::aten {

/// The instruction for a call of `op` that is the product of two real floating-point matrices; null for other calls.
std::unique_ptr<Instruction> lower_product(const Op& op, const Call& call, const Assembler& assembler);

/// Adds a times b to the matrix `sum`; false where that would be no faster than a product and a sum.
bool add_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b);

}  // namespace thunder::aten
