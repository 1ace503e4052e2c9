// Writes at an index.
#pragma once

#include <optional>

#include "core/builder.h"

namespace thunder::ops::torch {

/// A tensor of booleans, or of uint8, which PyTorch takes for one.
inline bool is_mask(const Arg& a) {
  return a.is_tensor() && (a.value().dtype() == DType::boolean || a.value().dtype() == DType::u8);
}

/// x with values where the one index, a boolean mask, is True: by `where`, which asks for no number of True elements.
/// Nothing where there is another index, or values for each element that is True.
///
///   x[mask] = row     x of shape (2, 3, 4), mask (2, 3), row (4) or (1, 4)     where(mask[..., None], row, x)
std::optional<Expr> put_by_mask(Builder& b, const Expr& x, const ArgList& indices, const Expr& values);

}  // namespace thunder::ops::torch
