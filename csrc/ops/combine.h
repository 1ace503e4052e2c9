// What a reduction's way to join elements (core/op.h) means for numbers.
#pragma once

#include <optional>

#include "core/op.h"

namespace thunder::ops {

/// The number that a reduction of elements of `t` may join any number of times without a change of its result, but for
/// the sign of a sum of negative zeros; nothing where no literal is such a number (the largest of integers).
std::optional<Arg> neutral_element(Combine combine, DType t);

}  // namespace thunder::ops
