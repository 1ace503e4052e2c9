#include "core/equal_sources.h"

namespace thunder {

EqualSources*& EqualSources::current() {
  thread_local EqualSources* sources = nullptr;
  return sources;
}

}  // namespace thunder
