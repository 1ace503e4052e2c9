// The function itself has to run.
#pragma once

#include <string>

#include "python/ref.h"

namespace thunder {

/// Why no program stands for the function: it would be another function than the user's.
struct NeedsEager {
  std::string why;
  Ref tensor = {};            ///< of the environment, that no program takes; or null
  bool warns = false;         ///< the user is told
  bool of_arguments = false;  ///< found before the function ran
};

}  // namespace thunder
