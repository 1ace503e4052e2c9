// What the core language asks about the pointwise primitives.
#pragma once

#include "core/op.h"

namespace thunder::ops::prims {

/// Whether a pointwise primitive takes tensors of floating or complex dtypes alone.
bool refuses_integers(const OpDef& primitive);

}  // namespace thunder::ops::prims
