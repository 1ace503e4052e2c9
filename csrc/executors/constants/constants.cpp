#include "executors/constants/constants.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "runtime/graph_recording.h"
#include "runtime/instruction.h"
#include "runtime/kernels/cuda_driver.h"
#include "runtime/kernels/current_stream.h"
#include "runtime/program.h"

namespace thunder {
namespace {

using Values = std::vector<c10::IValue>;

c10::Stream current_stream(c10::Device device) { return c10::impl::VirtualGuardImpl(device.type()).getStream(device); }

const at::Tensor* tensor_on_gpu(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().is_cuda() ? &v.toTensor() : nullptr;
}

// A copy of a small part of a large tensor, of which the rest would be kept as well.
at::Tensor alone_in_memory(const at::Tensor& t) {
  const size_t own = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
  if (!t.has_storage() || t.is_conj() || t.is_neg() || t.storage().nbytes() <= 2 * own + 512) return t;
  return range_of(t).clone().as_strided(t.sizes(), t.strides(), 0);
}

class ConstantsCall final : public Instruction {
 public:
  ConstantsCall(std::string name, std::shared_ptr<Program> program, std::vector<int> gpus)
      : name_(std::move(name)), program_(std::move(program)), gpus_(std::move(gpus)) {}

  std::string str() const override { return name_; }
  bool needs_python() const override { return program_->needs_python(); }

  void run(Frame& frame) const override {
    // A mode that watches operators may replace their results.  A graph of the user's may outlive this program, and so
    // computes what it reads.
    const bool captured = is_captured();
    const bool kept = !frame.watched && (!captured || GraphSettings::recording) &&
                      (made_.load(std::memory_order_acquire) || (!captured && make()));
    if (kept) mark_used();
    const Values now = kept ? Values() : program_->run({});
    const Values& values = kept ? values_ : now;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] >= 0) frame.registers[static_cast<size_t>(outputs[i])] = values[i];
  }

 private:
  bool is_captured() const {
    return std::any_of(gpus_.begin(), gpus_.end(),
                       [](int gpu) { return cuda_is_capturing(gpu, current_cuda_stream(gpu)); });
  }

  bool make() const {
    // The GIL may be asked for within, so that no lock is held; of two results the first one stays.
    const c10::InferenceMode usual(false);
    const BelowAutograd guard;
    Values values = program_->run({});
    std::vector<c10::Stream> streams;
    for (c10::IValue& v : values) {
      if (v.isTensor()) v = alone_in_memory(v.toTensor());
      const at::Tensor* t = tensor_on_gpu(v);
      streams.push_back(t ? current_stream(t->device()) : c10::Stream(c10::Stream::DEFAULT, c10::Device("cpu")));
      if (t) streams.back().synchronize();  // other streams read it next
    }
    const std::lock_guard lock(mutex_);
    if (made_.load(std::memory_order_relaxed)) return true;
    values_ = std::move(values);
    streams_ = std::move(streams);
    made_.store(true, std::memory_order_release);
    return true;
  }

  // Memory goes back to the stream that asked for it, unless the allocator knows of other streams.
  void mark_used() const {
    if (gpus_.empty()) return;
    for (size_t i = 0; i < values_.size(); ++i) {
      const at::Tensor* t = tensor_on_gpu(values_[i]);
      if (!t) continue;
      const c10::Stream now = current_stream(t->device());
      if (now == streams_[i]) continue;
      c10::impl::VirtualGuardImpl(now.device_type()).recordDataPtrOnStream(t->storage().data_ptr(), now);
    }
  }

  std::string name_;
  std::shared_ptr<Program> program_;
  std::vector<int> gpus_;
  mutable std::mutex mutex_;
  mutable std::atomic<bool> made_{false};
  mutable Values values_;
  mutable std::vector<c10::Stream> streams_;  // of those on a GPU
};

std::unique_ptr<Instruction> lower(const Call& call, const Assembler&) {
  Trace body;
  body.calls = call.body;
  body.output = call.output;
  std::vector<int> gpus;  // none on a machine without, where programs for GPUs are compiled for inspection
  for (Value v : flat_results(call.output)) {
    const Device& d = v.tensor().device;
    if (d.type == DeviceType::cuda && at::hasCUDA()) gpus.push_back(std::max<int>(0, d.index));
  }
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  return std::make_unique<ConstantsCall>(call.op->print_name, Program::build(body), std::move(gpus));
}

// Calls of the pass's operator run here; no executor claims others.
std::shared_ptr<Executor> make_constants() {
  register_lowering("constants", lower);
  return nullptr;
}

}  // namespace

ExecutorDefinition constants_executor() { return {.place = ExecutorPlace::NoList, .rank = 10, .make = make_constants}; }

}  // namespace thunder
