// The text of scalar computations in generated code.
#pragma once

#include <string>
#include <vector>

#include "core/trace.h"

namespace thunder::fuser {

/// A number as a literal of the type that elements of `t` are computed in.
std::string literal(const Arg& number, DType t);
std::string literal(double value, DType t);
/// The record's scalar expression with operands by schema name: "th_exp(t3)", "(t1 + t2)".
std::string scalar_text(const Op& op, const std::vector<std::pair<std::string, std::string>>& operands);
/// Whether it is a function of the C library: many times the work of an addition.
bool calls_library(const Op& op);
/// Whether the host computes it by arithmetic for arguments of a usual size, and asks the C library for others.
bool is_periodic(const Op& op);
/// Whether another implementation of it, PyTorch's, may give another last bit.  A division is among them, which
/// PyTorch's CUDA kernels turn into a product where the divisor is a number.
bool is_approximate(const Op& op);
/// A value of type `from` as one of type `to`, as PyTorch converts.
std::string converted(const std::string& text, DType from, DType to);
/// Whether PyTorch makes the largest number of what is beyond the range of e4m3 (the default), or none.
void set_float8_saturates(bool saturates);

}  // namespace thunder::fuser
