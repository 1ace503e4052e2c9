#include "core/progress.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace thunder {
namespace {

std::atomic<bool> on{[] {
  const char* text = std::getenv("THUNDER_PROGRESS");
  return !text || std::string_view(text) != "0";
}()};

// Not destroyed: another thread may compile while the process ends.
ProgressOutput& output() {
  static ProgressOutput* o = new ProgressOutput;
  return *o;
}

thread_local Progress* current = nullptr;

bool is_terminal() { return output().is_terminal ? output().is_terminal() : ::isatty(STDERR_FILENO) != 0; }

void write(const std::string& text) {
  if (output().line) return output().line(text);
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

// A line of a terminal that is narrower would not go away as a whole.
std::string shortened(std::string text) {
  constexpr size_t kWidth = 79;
  if (text.size() > kWidth) text = text.substr(0, kWidth - 3) + "...";
  return text;
}

}  // namespace

ProgressOutput set_progress_output(ProgressOutput o) { return std::exchange(output(), std::move(o)); }

void show_progress(bool show) { on = show; }

Progress::Progress(const std::function<std::string()>& name) {
  if (!on || current) return;
  outermost_ = true;
  name_ = name();
  begin_ = Clock::now();
  next_ = begin_ + output().wait;
  current = this;
}

Progress::~Progress() {
  if (!outermost_) return;
  current = nullptr;
  if (!shown_) return;
  if (on_terminal_) write("\r\033[K");
  else if (output().log) output().log(name_ + ": compiled, " + seconds(Clock::now()));
}

bool Progress::active() { return current != nullptr; }

void Progress::step(const char* phase, const std::function<std::string()>& detail) {
  if (!current) return;
  const Clock::time_point now = Clock::now();
  const bool other_phase = current->shown_ && current->phase_ != phase;
  if (other_phase || now >= current->next_) current->show(phase, detail, now);
}

void Progress::show(const char* phase, const std::function<std::string()>& detail, Clock::time_point now) {
  next_ = now + output().every;
  if (!shown_) on_terminal_ = is_terminal();
  shown_ = true;
  const bool other_phase = phase_ != phase;
  phase_ = phase;
  if (on_terminal_) {
    const std::string more = detail ? detail() : std::string();
    const std::string text =
        "thunder: " + name_ + ", " + seconds(now) + ": " + phase + (more.empty() ? "" : " " + more);
    write("\r\033[K" + shortened(text) + "\r");
  } else if (other_phase && output().log) {
    output().log(name_ + ": " + phase + ", after " + seconds(now));
  }
}

std::string Progress::seconds(Clock::time_point now) const {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::chrono::duration<double>(now - begin_).count());
  return text;
}

}  // namespace thunder
