// The executor of what the pass `constants` found.  The first run makes the results, and later runs hand them out.
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition constants_executor();

}  // namespace thunder
