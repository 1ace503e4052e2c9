// Warnings: once for each topic, and shown by whoever was set.
#include "core/warning.h"

#include <doctest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace thunder {
namespace {

std::vector<std::string> shown;

/// Sets a handler for the length of a scope, and forgets what was shown.
struct Handler {
  explicit Handler(WarningHandler h) : before(set_warning_handler(h)) { shown.clear(); }
  ~Handler() { set_warning_handler(before); }
  WarningHandler before;
};

void keep(const std::string& message) { shown.push_back(message); }

using Messages = std::vector<std::string>;

// Topics are shown once in the life of the process: each case has its own.

TEST_CASE("warn_once: once for a topic, whatever the message") {
  Handler handler(keep);
  warn_once("warning_test, a folder", "cannot write a/");
  warn_once("warning_test, a folder", "cannot write b/");
  warn_once("warning_test, another folder", "cannot write a/");
  warn_once("warning_test, a folder", "cannot write a/");
  CHECK(shown == Messages{"cannot write a/", "cannot write a/"});
}

TEST_CASE("warn_once: a handler that is set later does not see the topic again") {
  {
    Handler first(keep);
    warn_once("warning_test, of the first", "one");
  }
  Handler second(keep);
  warn_once("warning_test, of the first", "one");
  CHECK(shown.empty());
}

TEST_CASE("set_warning_handler: gives the handler before") {
  Handler handler(keep);
  const WarningHandler other = [](const std::string&) {};
  CHECK((set_warning_handler(other) == &keep));
  CHECK((set_warning_handler(keep) == other));
}

TEST_CASE("warn_once: a handler may warn") {
  Handler handler([](const std::string& message) {
    warn_once("warning_test, from the handler", "second");
    keep(message);
  });
  warn_once("warning_test, that warns", "first");
  CHECK(shown == Messages{"second", "first"});
}

TEST_CASE("warn_once: a handler may throw, and the next warning comes") {
  Handler handler([](const std::string& message) {
    keep(message);
    if (message == "an error now") throw std::runtime_error(message);
  });
  CHECK_THROWS_WITH_AS(warn_once("warning_test, an error", "an error now"), "an error now", std::runtime_error);
  warn_once("warning_test, after an error", "as before");
  CHECK(shown == Messages{"an error now", "as before"});
}

TEST_CASE("warn_once: once for threads that warn at the same time") {
  Handler handler(keep);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([] { warn_once("warning_test, of threads", "one of four"); });
  for (std::thread& t : threads) t.join();
  CHECK(shown == Messages{"one of four"});
}

}  // namespace
}  // namespace thunder
