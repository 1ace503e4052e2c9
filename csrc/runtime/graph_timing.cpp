#include "runtime/graph_timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/error.h"
#include "runtime/interop.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/python_error.h"

namespace thunder {
namespace {

constexpr size_t kTimed = 3;      // runs that decide, by their majority
constexpr size_t kLongest = 64;   // further runs after which a device that is not through counts as behind
constexpr double kReplay = 40;    // microseconds that the host needs for a replay, with the copies around it
constexpr double kTail = 20;      // microseconds from the last launch to its end, on a device that waits
constexpr double kAsLong = 1.25;  // times of the host and the device that count as the same
constexpr double kShort = 0.05;   // of the device's time: kernels are short if issuing them takes as long

using Clock = std::chrono::steady_clock;
double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

class CudaRunTimer final : public RunTimer {
 public:
  CudaRunTimer(int device, void* stream) : watch_(device, stream), start_(Clock::now()) {}
  std::optional<RunTime> read() override {
    if (!watch_.has_ended()) return std::nullopt;
    time_.device = 1e3 * static_cast<double>(watch_.milliseconds());
    return time_;
  }

 private:
  void stop_now() override {
    time_.issued = microseconds(Clock::now() - start_);
    time_.behind = !watch_.has_begun();
    watch_.stop();
  }

  CudaStopwatch watch_;
  Clock::time_point start_;
  RunTime time_;
};

// The recorder's own, for devices without events and for tests: read() gives None or the three members of a RunTime.
class PythonRunTimer final : public RunTimer {
 public:
  explicit PythonRunTimer(std::shared_ptr<void> timer) : timer_(std::move(timer)) {}
  std::optional<RunTime> read() override {
    PyObject* result = call("read");
    std::optional<RunTime> out;
    int behind = 0;
    if (result != Py_None) {
      out.emplace();
      if (!PyArg_ParseTuple(result, "ddp", &out->issued, &out->device, &behind)) throw_python_error();
      out->behind = behind != 0;
    }
    Py_DECREF(result);
    return out;
  }

 private:
  void stop_now() override { Py_DECREF(call("stop")); }
  PyObject* call(const char* method) const {
    PyObject* result = PyObject_CallMethod(static_cast<PyObject*>(timer_.get()), method, nullptr);
    if (!result) throw_python_error();
    return result;
  }
  std::shared_ptr<void> timer_;
};

std::string milliseconds(double us) { return cat(std::round(us / 10) / 100, " ms"); }

// Why a recording would not pay; empty if it would.
std::string why_not(const RunTime& t) {
  if (t.behind) return "the host issues it before the device comes to it";
  if (t.device > kAsLong * t.issued + kTail)
    return cat("the device takes longer (", milliseconds(t.device), ") than the host to issue it (",
               milliseconds(t.issued), ")");
  if (t.issued < kReplay) return "a replay would take the host as long as its launches";
  return {};
}

}  // namespace

void RunTimer::stop() {
  stop_now();
  stopped_ = true;
}

std::shared_ptr<RunTimer> RunTimer::start(const GraphSettings& settings, int index) {
  if (!settings.has_timer) return std::make_shared<CudaRunTimer>(index, current_cuda_stream(index));
  const Ref timer = checked(PyObject_CallMethod(static_cast<PyObject*>(settings.recorder.get()), "timer", nullptr));
  return std::make_shared<PythonRunTimer>(hold_python(timer.get()));
}

void RunTimes::settle() {
  waited_ += !running_.empty();
  std::erase_if(running_, [&](const std::shared_ptr<RunTimer>& timer) {
    if (!timer->stopped()) return true;  // the run raised, or another thread is at it
    const std::optional<RunTime> time = timer->read();
    if (!time && waited_ < kLongest) return false;
    if (time) issued_ = std::min(issued_, time->issued);
    std::string why = time ? why_not(*time) : "the host issues it before the device comes to it";
    ++(why.empty() ? bound_ : not_bound_);
    if (!why.empty() && time && time->issued >= std::max(kReplay, kShort * time->device)) ++short_kernels_;
    if (!why.empty()) why_ = std::move(why);
    return true;
  });
}

RunTimes::Verdict RunTimes::verdict() {
  if (verdict_ != Verdict::Open) return verdict_;
  settle();
  if (2 * bound_ > kTimed) verdict_ = Verdict::Pays;
  if (2 * not_bound_ > kTimed) verdict_ = 2 * short_kernels_ > kTimed ? Verdict::Helps : Verdict::DoesNot;
  if (verdict_ != Verdict::Open) running_.clear();
  return verdict_;
}

std::shared_ptr<RunTimer> RunTimes::start(const GraphSettings& settings, int index) {
  // The first run loads and compiles.
  if (verdict_ != Verdict::Open || runs_++ == 0 || running_.size() + bound_ + not_bound_ >= kTimed) return nullptr;
  running_.push_back(RunTimer::start(settings, index));
  return running_.back();
}

}  // namespace thunder
