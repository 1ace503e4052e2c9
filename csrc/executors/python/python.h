// The last executor: operators on Python numbers, which need no tensor library.
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition python_executor();

}  // namespace thunder
