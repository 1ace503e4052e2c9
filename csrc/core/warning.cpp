#include "core/warning.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>

namespace thunder {
namespace {

void to_stderr(const std::string& message) { std::fprintf(stderr, "thunder: warning: %s\n", message.c_str()); }

std::atomic<WarningHandler> current_handler{&to_stderr};

// Not destroyed: another thread may warn while the process ends.
struct Shown {
  std::mutex mutex;
  std::set<std::string> topics;
};
Shown& shown() {
  static Shown* s = new Shown;
  return *s;
}

}  // namespace

void warn_once(const std::string& topic, const std::string& message) {
  {
    std::lock_guard lock(shown().mutex);
    if (!shown().topics.insert(topic).second) return;
  }
  current_handler.load()(message);
}

WarningHandler set_warning_handler(WarningHandler handler) {
  return current_handler.exchange(handler ? handler : &to_stderr);
}

}  // namespace thunder
