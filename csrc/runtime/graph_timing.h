// Whether the host keeps a program's device waiting: what its first runs take, measured without waiting for them.
//
// A graph helps where launches take longer than what they launch.  The host's time to issue a run is taken beside that
// of the device between the run's start and its end there, which is as long if the device waits for the host, and
// longer if not.  The device's is asked for in later calls, when it is there.
//
// A device that does not wait for the host pauses between two kernels all the same, for less time in a graph.  A run of
// many short kernels is therefore shorter as a graph by some hundredths of the host's time to issue it.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/graph_recording.h"

namespace thunder {

/// In microseconds.
struct RunTime {
  double issued = 0;    ///< until the last launch had returned
  double device = 0;    ///< from the run's start on the device to its end
  bool behind = false;  ///< the device had not begun with the run when all of it was issued
};

/// Times one run, which begins where it is made.
class RunTimer {
 public:
  virtual ~RunTimer() = default;
  /// The run is issued.
  void stop();
  bool stopped() const { return stopped_; }
  /// Nothing while the device is not through with it.
  virtual std::optional<RunTime> read() = 0;

  static std::shared_ptr<RunTimer> start(const GraphSettings& settings, int index);

 protected:
  virtual void stop_now() = 0;

 private:
  bool stopped_ = false;
};

/// What the first runs of a program tell, for one specialization.  Needs the GIL.
class RunTimes {
 public:
  enum class Verdict : uint8_t {
    Open,
    Pays,   ///< the device waits for the host
    Helps,  ///< the device does not wait, and the pauses between its kernels are a part of the run worth saving
    DoesNot
  };
  /// By what is known by now.
  Verdict verdict();
  /// Why the device gains little by a recording, as the end of a sentence.
  const std::string& why() const { return why_; }
  /// What the host took at least to issue a run, in microseconds.
  double issued() const { return issued_; }
  /// Times a run that is about to be issued; null where no more are needed.
  std::shared_ptr<RunTimer> start(const GraphSettings& settings, int index);
  /// Reads the times that are there by now.
  void settle();

 private:
  std::vector<std::shared_ptr<RunTimer>> running_;
  size_t runs_ = 0, waited_ = 0, bound_ = 0, not_bound_ = 0;
  size_t short_kernels_ = 0;  // of the runs in which the device does not wait
  double issued_ = std::numeric_limits<double>::infinity();
  Verdict verdict_ = Verdict::Open;
  std::string why_;
};

}  // namespace thunder
