// The executor `c10d`: collectives by PyTorch's process groups, whatever their backend.
#pragma once

#include "executors/definition.h"

namespace thunder {

ExecutorDefinition c10d_executor();

}  // namespace thunder
