#include "runtime/saved_memory.h"

namespace thunder {
namespace {

thread_local bool is_last = false;

}  // namespace

bool saved_may_be_overwritten() { return is_last; }

RunsBackward::RunsBackward(bool last) : before_(is_last) { is_last = last; }
RunsBackward::~RunsBackward() { is_last = before_; }

}  // namespace thunder
