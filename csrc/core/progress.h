// What a compilation is doing, for those who wait for it longer than a second.
//
// The thread that compiles says at each step what it does.  Nothing is shown for a second; from then on a terminal has a
// line with the step and the seconds, which goes when the call is done, and elsewhere a log has a message for each phase
// and one for the whole.  There is no thread behind it: a fork finds nothing to be mended, and what prints in between
// overwrites the line.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace thunder {

/// For the length of a scope this thread compiles: the outermost of those that nest.
class Progress {
 public:
  /// `name`: of the function.
  explicit Progress(const std::function<std::string()>& name);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// This thread is at a step.  `detail` is asked where the step is shown.  Costs a look at the clock within a Progress,
  /// nothing else.
  static void step(const char* phase, const std::function<std::string()>& detail = {});
  /// Whether this thread is within one.
  static bool active();

 private:
  using Clock = std::chrono::steady_clock;
  void show(const char* phase, const std::function<std::string()>& detail, Clock::time_point now);
  std::string seconds(Clock::time_point now) const;

  bool outermost_ = false;
  bool on_terminal_ = false, shown_ = false;
  std::string name_, phase_;
  Clock::time_point begin_, next_;
};

/// Where it is shown.
struct ProgressOutput {
  std::function<bool()> is_terminal;             ///< empty: whether the standard error is one
  std::function<void(const std::string&)> line;  ///< on a terminal, control characters included; empty: standard error
  std::function<void(const std::string&)> log;   ///< elsewhere; empty: nothing
  std::chrono::milliseconds wait{1000}, every{200};
};

/// Returns what was set before.  Not while another thread compiles.
ProgressOutput set_progress_output(ProgressOutput output);
/// A process begins with true, unless the variable THUNDER_PROGRESS is 0.
void show_progress(bool on);

}  // namespace thunder
