// The executor `c10d`: collectives by PyTorch's process groups, whatever their backend.
#pragma once

#include <memory>

#include "passes/executor.h"

namespace thunder {

std::shared_ptr<Executor> make_c10d_executor();

}  // namespace thunder
