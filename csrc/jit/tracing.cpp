#include "jit/tracing.h"

#include <c10/core/DefaultDtype.h>

#include <cstdlib>
#include <string_view>

#include "core/dtype.h"
#include "runtime/convert.h"

namespace thunder {

namespace {

int& tracing_depth() {
  static thread_local int depth = 0;
  return depth;
}

}  // namespace

Tracing::Tracing() {
  set_default_dtype(from_aten(c10::get_default_dtype_as_scalartype()));
  ++tracing_depth();
}
Tracing::~Tracing() { --tracing_depth(); }
bool Tracing::active() { return tracing_depth() > 0; }

Runner& function_runner() {
  static auto* r = new Runner();
  return *r;
}

bool interpreter_enabled() {
  const char* text = std::getenv("THUNDER_INTERPRETER");
  return !text || std::string_view(text) != "0";
}

}  // namespace thunder
