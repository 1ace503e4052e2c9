#include "core/progress.h"

#include <doctest.h>

#include <regex>
#include <string>
#include <vector>

namespace thunder {
namespace {

// For the length of a scope output comes here, at once.
struct Output {
  std::vector<std::string> lines, logs;
  ProgressOutput before;

  explicit Output(bool terminal, std::chrono::milliseconds wait = std::chrono::milliseconds(0)) {
    ProgressOutput o;
    o.is_terminal = [terminal] { return terminal; };
    o.line = [this](const std::string& s) { lines.push_back(s); };
    o.log = [this](const std::string& s) { logs.push_back(s); };
    o.wait = wait;
    o.every = std::chrono::milliseconds(0);
    before = set_progress_output(std::move(o));
  }
  ~Output() { set_progress_output(std::move(before)); }
};

std::string of_f() { return "f"; }

/// The message with "*" for its number of seconds, which must be one with one decimal.
std::string without_time(const std::string& message) {
  return std::regex_replace(message, std::regex("[0-9]+\\.[0-9] s"), "* s");
}

TEST_CASE("progress: a terminal has one line, which goes") {
  Output out(true);
  {
    const Progress p(of_f);
    Progress::step("acquiring", [] { return std::string("g"); });
    {
      const Progress nested([] { return std::string("inner"); });
      Progress::step("rewriting");
    }
    Progress::step("compiling", [] { return std::string(200, 'x'); });
  }
  REQUIRE(out.lines.size() == 4);
  CHECK(without_time(out.lines[0]).find("thunder: f, * s: acquiring g") != std::string::npos);
  CHECK(without_time(out.lines[1]).find("f, * s: rewriting") != std::string::npos);
  CHECK(out.lines[2].size() < 90);  // with control characters
  CHECK(out.lines[3] == "\r\033[K");
  CHECK(out.logs.empty());
}

TEST_CASE("progress: a log has a message for each phase, and one at the end") {
  Output out(false);
  {
    const Progress p(of_f);
    for (const char* phase : {"acquiring", "acquiring", "rewriting"}) Progress::step(phase);
  }
  for (std::string& log : out.logs) log = without_time(log);
  CHECK(out.logs == std::vector<std::string>{"f: acquiring, after * s", "f: rewriting, after * s", "f: compiled, * s"});
  CHECK(out.lines.empty());
}

TEST_CASE("progress: what is short, switched off or outside of a compilation shows nothing") {
  {
    Output out(true, std::chrono::hours(1));
    {
      const Progress p(of_f);
      CHECK(Progress::active());
      Progress::step("acquiring");
    }
    CHECK(!Progress::active());
    CHECK(out.lines.empty());
  }
  Output out(true);
  Progress::step("acquiring");
  show_progress(false);
  {
    const Progress p(of_f);
    Progress::step("acquiring");
  }
  show_progress(true);
  CHECK(out.lines.empty());
}

}  // namespace
}  // namespace thunder
