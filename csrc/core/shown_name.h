// An operator's name in errors.
#pragma once

#include <string_view>

#include "core/schema.h"

namespace thunder {

/// The name of PyTorch's function: "batch_norm" for the record batch_norm_functional, which returns what the function
/// writes.
inline std::string_view shown_name(const Schema& schema) {
  constexpr std::string_view kFunctional = "_functional";
  std::string_view name = schema.name;
  if (name.ends_with(kFunctional)) name.remove_suffix(kFunctional.size());
  return name;
}

}  // namespace thunder
