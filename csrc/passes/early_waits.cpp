#include "passes/early_waits.h"

#include <algorithm>

#include "core/dim_algebra.h"
#include "passes/visit.h"

namespace thunder {
namespace {

constexpr size_t kMostCalls = 16;        // that a wait may need
constexpr int64_t kMostBytes = 1 << 20;  // that these may make: they are in memory from the beginning

bool waits(const Call& call) {
  if (!tags_within(call, kHostSync | kDataDependent)) return false;
  bool on_gpu = false;
  visit_all_inputs(
      call, [&](Value v) { on_gpu = on_gpu || (v.type().is_tensor() && v.tensor().device.type == DeviceType::cuda); });
  return on_gpu;
}

bool has_other_effects(const Call& call) { return (effects(call) & ~uint64_t{kHostSync}) != 0; }

int64_t product(const Dims& dims, int64_t unknown) {
  int64_t n = 1;
  for (const Dim& d : dims) n = std::min(n * std::min(usual_value(d, unknown), kMostBytes + 1), kMostBytes + 1);
  return n;
}

// A size that only the run finds is at most the number of elements of an operand: that of places where a mask holds.
int64_t bytes_made(const Call& call) {
  int64_t elements = 1, bytes = 0;
  visit_all_inputs(call, [&](Value v) {
    if (v.type().is_tensor()) elements = std::max(elements, product(v.shape(), kMostBytes));
  });
  visit_outputs(call, [&](Value v) {
    if (v.type().is_tensor()) bytes += itemsize(v.dtype()) * product(v.shape(), elements);
  });
  return bytes;
}

// What it makes beside its result, and of what size, is not known of a composite; gathers of parameters have a place in
// the order of communication.
bool stays(const Call& call) { return !call.body.empty() || tags_within(call, kComm); }

class EarlyWaits {
 public:
  explicit EarlyWaits(const Trace& trace) : trace_(trace), moved_(trace.calls.size(), 0) {}

  Trace run() {
    for (size_t i = 0; i < trace_.calls.size() && !has_other_effects(*trace_.calls[i]); ++i) {
      const Call& call = *trace_.calls[i];
      visit_outputs(call, [&](Value v) {
        if (maker_[v] < 0) maker_.set(v, static_cast<int>(i));  // a call may pass its argument on
      });
      if (waits(call)) move(i);
    }
    if (std::find(moved_.begin(), moved_.end(), 1) == moved_.end()) return trace_;
    Trace out = trace_.derived();
    for (char first : {1, 0})
      for (size_t i = 0; i < moved_.size(); ++i)
        if (moved_[i] == first) out.calls.push_back(trace_.calls[i]);
    return out;
  }

 private:
  void move(size_t wait) {
    std::vector<size_t> needed{wait};
    int64_t bytes = 0;
    for (size_t next = 0; next < needed.size(); ++next) {
      const Call& call = *trace_.calls[needed[next]];
      bytes += bytes_made(call);
      const bool other_wait = next > 0 && waits(call);
      if (needed.size() > kMostCalls || bytes > kMostBytes || other_wait || stays(call)) return;
      visit_all_inputs(call, [&](Value v) {
        const int made = maker_[v];
        if (made < 0 || moved_[static_cast<size_t>(made)]) return;
        if (const auto i = static_cast<size_t>(made); std::find(needed.begin(), needed.end(), i) == needed.end())
          needed.push_back(i);
      });
    }
    for (size_t i : needed) moved_[i] = 1;
  }

  const Trace& trace_;
  std::vector<char> moved_;
  ValueMap<int> maker_{-1};  // the call that makes a value
};

}  // namespace

bool waits_on_gpu(const Trace& trace) {
  return std::any_of(trace.calls.begin(), trace.calls.end(), [](const Call* c) { return waits(*c); });
}

Trace early_waits(const Trace& trace) { return EarlyWaits(trace).run(); }

}  // namespace thunder
