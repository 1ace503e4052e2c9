// One program on memory of its own, recorded so that a replay runs all of it: a CUDA graph.
//
// What records is a Python object, so that PyTorch's own torch.cuda.CUDAGraph does it without a link to CUDA, and so
// that a test can put something else in its place.  All functions need the GIL.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <Python.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/program.h"

namespace thunder {

/// What the graphs of one compiled function share.
///
/// `recorder` has these attributes:
///   device: the type of device whose programs it records, "cuda"
///   record(run, index, shared, pool): records what `run()` does on device `index`, and returns what replays it, how
///     many bytes it keeps, and the pool in which these lie.  `run` may be called again: then it leaves its results in
///     the memory of the first ones.  `shared`: the recording's memory may be that of other shared recordings, all of
///     which are replayed one after another.  `pool`: that of an earlier recording, to be replayed before this one; or
///     None.
///   warm_up: whether a program must have run once before it is recorded, so that it finds loaded what it needs
///   capturing(): whether somebody else is recording on the current stream
///   stream(index): a number for the current stream; asked only where `device` is not "cuda"
///   timer(): an object with stop() and read() that times a run (graph_timing.h).  A recorder for "cuda" need not have
///     this method: CUDA's events time a run then.
/// and, where they are automatic,
///   refuses(): why nothing is recorded in this process, or None
///   memory(index): the bytes that the device has, and those that are free
///   others_have_streams(index): whether there may be streams of the process besides the default one and the recorder's.
///     What such a stream still reads when the last tensor is gone, PyTorch's allocator keeps; a recording does not.
struct GraphSettings {
  /// `automatic`: what pays and keeps little is recorded, and nothing warns; else all that can be.
  GraphSettings(std::string function, PyObject* recorder, bool automatic);
  /// The current stream of a device in this thread.
  void* stream(int index) const;
  bool somebody_records() const;
  /// Why nothing is recorded in this process; or empty.
  std::string refusal() const;
  /// The bytes that the device has, and those that are free.
  std::pair<int64_t, int64_t> memory(int index) const;
  bool others_have_streams(int index) const;
  /// How many more bytes one program's recordings may keep that keep `kept` by now.
  int64_t most_bytes(int index, int64_t kept) const;

  std::string function;  ///< the user's name for it, for warnings
  std::shared_ptr<void> recorder;
  bool automatic;
  c10::DeviceType device;
  bool warm_up;
  bool has_timer;  ///< the recorder times runs itself
  size_t captures = 0, replays = 0, ungraphed = 0;
  std::map<std::string, size_t> why;  ///< what is not recorded, or not any more: how many programs, by the reason
  std::atomic<int64_t> bytes{0};      ///< that its recordings keep
  static inline std::atomic<bool> recording{false};  ///< one at a time in the process
};

class GraphRecording {
 public:
  /// Where the program finds an input.
  enum class Place : uint8_t {
    Unread,
    Address,  ///< where the caller's tensor lies; a replay needs it to lie there again
    Learned,  ///< the same of a tensor that may be another one in each call: its layout is compared, too
    Buffer,   ///< in memory of the recording, into which a replay copies the caller's
    Missing,  ///< the program is given no tensor
    Held,     ///< in memory of another recording, given when this one was made
    Number,   ///< of the host, the same in each replay
  };

  /// From a result into an input.
  using Writes = std::vector<std::pair<size_t, size_t>>;

  ~GraphRecording();

  /// Where a recording's memory comes from.
  struct Memory {
    bool shared = false;
    /// In this recording's pool; inputs that are Held are freed there after their last use, if nobody else has them.
    const GraphRecording* after = nullptr;
  };

  /// Copies `inputs` and records the program on them, and then copies of results into inputs (`writes`).  The Python
  /// error of a recorder that fails is thrown.
  static std::shared_ptr<GraphRecording> record(std::shared_ptr<GraphSettings> settings,
                                                std::shared_ptr<const Program> program, std::vector<c10::IValue> inputs,
                                                std::vector<Place> places, Writes writes, int index, Memory memory);

  /// Whether inputs of the same kinds have the layouts and lie where the recording reads them, and operators are set as
  /// they were (TF32, cuDNN, ...).
  bool fits(const std::vector<c10::IValue>& inputs) const;
  /// Copies what is to be copied, and replays.  An undefined tensor in the place of a Buffer stands for zeros.
  void replay(const std::vector<c10::IValue>& inputs) const;

  /// In the recording's memory; the next replay overwrites them.
  const std::vector<c10::IValue>& results() const { return body_->results; }
  /// Gives up a result, whose memory a recording behind this one may then have.
  void forget_result(size_t i) { body_->results[i] = {}; }
  /// What the program reads: the caller's tensors or copies of them.
  const std::vector<c10::IValue>& inputs() const { return body_->inputs; }
  Place place(size_t i) const { return inputs_[i].place; }
  bool reads_learned() const;
  bool writes() const { return !body_->writes.empty(); }
  void* stream() const { return stream_; }
  c10::DeviceType device() const { return settings_->device; }
  /// Recordings before a failure: PyTorch may have had to give its generator another state then.
  bool outdated() const;
  mutable size_t count = 0;  ///< of replays
  int64_t bytes() const { return bytes_; }

  struct Body {
    std::shared_ptr<const Program> program;
    std::vector<c10::IValue> inputs, results;
    Writes writes;
    std::vector<size_t> freed;  ///< inputs that only the run holds
    bool ran = false;
    void run();
  };

 private:
  struct Input {
    Place place = Place::Unread;
    const void* address = nullptr;
    bool flat = false;  ///< copied as a range of memory: its elements overlap or have gaps
    std::vector<int64_t> sizes, strides;
  };
  void copy_in(const std::vector<c10::IValue>& inputs) const;
  c10::IValue given(size_t i, const c10::IValue& value);
  at::Tensor buffer_for(size_t i, const at::Tensor& t);

  std::shared_ptr<GraphSettings> settings_;
  std::shared_ptr<Body> body_;
  std::vector<Input> inputs_;
  std::shared_ptr<void> replay_, pool_;
  void* stream_ = nullptr;
  size_t epoch_ = 0;
  uint64_t operators_ = 0;
  int64_t bytes_ = 0;
};

/// Copies each tensor into its partner in as few launches as possible.
void copy_tensors(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from);
/// Copies results into inputs, except those that lie there already.
void write_results(const std::vector<c10::IValue>& inputs, const std::vector<c10::IValue>& results,
                   const std::vector<std::pair<size_t, size_t>>& writes);
/// The range of memory in which the tensor's elements lie, where they overlap or have gaps; else the tensor.  PyTorch's
/// copies refuse to write to elements that overlap.
at::Tensor memory_of(const at::Tensor& t);
/// The range of memory in which the tensor's elements lie, from the first to the last.
at::Tensor range_of(const at::Tensor& t);
/// A new tensor on the same memory, without history.
at::Tensor alias_without_history(const at::Tensor& t);
/// Null for anything but a defined tensor.
inline const at::Tensor* defined_tensor(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().defined() ? &v.toTensor() : nullptr;
}

}  // namespace thunder
