// Whether a backward may overwrite what was saved for it, as cuDNN's recurrent layers do.
#pragma once

namespace thunder {

/// Whether the program that runs in this thread is a backward after which nobody reads what was saved.
bool saved_may_be_overwritten();

/// While it lives, this thread runs, or records, a backward; `last`: nobody reads what was saved after it.
class RunsBackward {
 public:
  explicit RunsBackward(bool last);
  ~RunsBackward();
  RunsBackward(const RunsBackward&) = delete;
  RunsBackward& operator=(const RunsBackward&) = delete;

 private:
  const bool before_;
};

}  // namespace thunder
