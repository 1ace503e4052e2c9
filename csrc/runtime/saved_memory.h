// Whether a backward may overwrite what was saved for it, as cuDNN's recurrent layers do.
#pragma once

#include <optional>

namespace thunder {

/// Whether nobody reads what was saved once the backward that runs in this thread is done.  False outside of a backward.
bool saved_may_be_overwritten();

/// While it lives, the backward that this thread runs is one that a CUDA graph records.
class BackwardRecorded {
 public:
  /// `only_last`: the graph stands only for a backward after which nobody reads what was saved.
  explicit BackwardRecorded(bool only_last);
  ~BackwardRecorded();
  BackwardRecorded(const BackwardRecorded&) = delete;
  BackwardRecorded& operator=(const BackwardRecorded&) = delete;

 private:
  const std::optional<bool> before_;
};

}  // namespace thunder
