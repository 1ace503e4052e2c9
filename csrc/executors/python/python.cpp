#include "executors/python/python.h"

namespace thunder {

std::shared_ptr<Executor> make_python_executor() {
  static auto executor = std::make_shared<Executor>("python");
  return executor;
}

}  // namespace thunder
