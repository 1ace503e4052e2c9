// The operator families, one list: a static library drops what nobody refers to, so each family is named here.
#pragma once

#include <span>

#include "core/op.h"

namespace thunder::ops {

struct Family {
  const char* level;  ///< "prims", "clang", "torch"
  const char* name;   ///< "elementwise"
  std::span<const OpDef> (*records)();
};

/// In order of registration: prims, clang, torch.
std::span<const Family> families();

/// Fills the registry; further calls do nothing.
void register_all();

}  // namespace thunder::ops
