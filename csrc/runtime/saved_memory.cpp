#include "runtime/saved_memory.h"

#include <torch/csrc/autograd/graph_task.h>

namespace thunder {
namespace {

thread_local std::optional<bool> recorded_as_last;

}  // namespace

bool saved_may_be_overwritten() {
  if (recorded_as_last) return *recorded_as_last;
  return torch::autograd::get_current_graph_task_id() != -1 && !torch::autograd::get_current_graph_task_keep_graph();
}

BackwardRecorded::BackwardRecorded(bool only_last) : before_(recorded_as_last) { recorded_as_last = only_last; }
BackwardRecorded::~BackwardRecorded() { recorded_as_last = before_; }

}  // namespace thunder
