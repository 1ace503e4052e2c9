// The last executor: operators on Python numbers, which need no tensor library.
#pragma once

#include <memory>

#include "passes/executor.h"

namespace thunder {

std::shared_ptr<Executor> make_python_executor();

}  // namespace thunder
