// One program on memory of its own, recorded so that a replay runs all of it: a CUDA graph.
//
// What records is a Python object, so that PyTorch's own torch.cuda.CUDAGraph does it without a link to CUDA, and so
// that a test can put something else in its place.  All functions need the GIL.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <Python.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/program.h"

namespace thunder {

/// What the graphs of one compiled function share.
///
/// `recorder` has these attributes:
///   device: the type of device whose programs it records, "cuda"
///   record(run, index, shared): records what `run()` does on device `index`, and returns what replays it.  `run` may
///     be called again: then it leaves its results in the memory of the first ones.  `shared`: the recording's memory
///     may be that of other shared recordings, all of which are replayed one after another.
///   warm_up: whether a program must have run once before it is recorded, so that it finds loaded what it needs
///   capturing(): whether somebody else is recording on the current stream
///   stream(index): a number for the current stream; asked only where `device` is not "cuda"
struct GraphSettings {
  GraphSettings(std::string function, PyObject* recorder);
  /// The current stream of a device in this thread.
  void* stream(int index) const;
  bool somebody_records() const;

  std::string function;  ///< the user's name for it, for warnings
  std::shared_ptr<void> recorder;
  c10::DeviceType device;
  bool warm_up;
  size_t captures = 0, replays = 0, ungraphed = 0;
  bool recording = false;     ///< one recording at a time
  std::set<void*> replaying;  ///< streams on which a shared recording is being replayed and read
};

class GraphRecording {
 public:
  /// Where the program finds an input.
  enum class Place : uint8_t {
    Unread,
    Address,  ///< where the caller's tensor lies; a replay needs it to lie there again
    Buffer,   ///< in memory of the recording, into which a replay copies the caller's
    Held,     ///< in memory of another recording, given when this one was made
  };

  /// Copies `inputs` and records the program on them.  The Python error of a recorder that fails is thrown.
  static std::shared_ptr<GraphRecording> record(GraphSettings& settings, std::shared_ptr<const Program> program,
                                                const std::vector<c10::IValue>& inputs, std::vector<Place> places,
                                                int index, bool shared);

  /// Whether inputs with the same metadata lie where the recording reads them.
  bool fits(const std::vector<c10::IValue>& inputs) const;
  /// Copies what is to be copied, and replays.  An undefined tensor stands for zeros.
  void replay(GraphSettings& settings, const std::vector<c10::IValue>& inputs) const;

  /// In the recording's memory; the next replay overwrites them.
  const std::vector<c10::IValue>& results() const { return body_->results; }
  /// What the program reads: the caller's tensors or copies of them.
  const std::vector<c10::IValue>& inputs() const { return body_->inputs; }
  Place place(size_t i) const { return inputs_[i].place; }
  void* stream() const { return stream_; }
  /// Recordings before a failure: PyTorch may have had to give its generator another state then.
  bool outdated() const;
  mutable size_t count = 0;  ///< of replays

  struct Body {
    std::shared_ptr<const Program> program;
    std::vector<c10::IValue> inputs, results;
    bool ran = false;
    void run();
  };

 private:
  struct Input {
    Place place = Place::Unread;
    const void* address = nullptr;
    bool flat = false;  ///< copied as a range of memory: its elements overlap or have gaps
  };
  void copy_in(const std::vector<c10::IValue>& inputs) const;
  at::Tensor buffer_for(size_t i, const at::Tensor& t);

  std::shared_ptr<Body> body_;
  std::vector<Input> inputs_;
  std::shared_ptr<void> replay_;
  void* stream_ = nullptr;
  size_t epoch_ = 0;
};

/// Copies each tensor into its partner in as few launches as possible.
void copy_tensors(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from);
/// The range of memory in which the tensor's elements lie, where they overlap or have gaps; else the tensor.  PyTorch's
/// copies refuse to write to elements that overlap.
at::Tensor memory_of(const at::Tensor& t);
/// A new tensor on the same memory, without history.
at::Tensor alias_without_history(const at::Tensor& t);
/// Null for anything but a defined tensor.
inline const at::Tensor* defined_tensor(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().defined() ? &v.toTensor() : nullptr;
}

}  // namespace thunder
